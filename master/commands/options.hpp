// The master's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "devices/registry.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace convoy {

/// What several commands share.
struct NetOptions {
  std::string net;               ///< file
  std::vector<std::string> set;  ///< overrides
  std::string data = "glyphs";   ///< folder, or "glyphs"
  Corrupt corrupt = Corrupt::refuse;
  std::string device = "auto";
  DeviceOptions device_options;
  int batch = 0;  ///< 0: the net file's
  std::uint64_t seed = 1;
  std::string format = "text";
};

struct ClusterOptions {
  int slaves = 0;
  int least_slaves = 0;  ///< with fewer left a run waits for more
  std::string listen = "tcp://*:5570";
  bool insecure = false;  ///< neither encrypt nor authenticate
  std::string keys;       ///< file; empty: the user's
  bool share = false;     ///< the master's own device takes a share as well
  std::string memory;     ///< of the master's own share
  std::string shares;     ///< "3,2,1": fixed, in order of the members, instead of measured speeds
  std::string plan;       ///< file: fixed plan; or "thesis"
  std::string exchange;   ///< star or ring; empty: the plan's
  int micro_batch = 0;    ///< images; 0: the plan's
  std::string wire;       ///< number type on the wire; empty: the plan's, or fp32
};

struct TrainOptions {
  NetOptions net;
  ClusterOptions cluster;
  int epochs = 0;       ///< 0: the net file's
  long steps = 0;       ///< stop after so many; 0: all
  std::string out;      ///< run folder; empty: runs/<net>-<first free number>
  std::string weights;  ///< start from these instead of random ones
  bool resume = false;
  double checkpoint_seconds = 60.0;
  double snapshot_seconds = 0.0;
};

struct TestOptions {
  NetOptions net;
  ClusterOptions cluster;
  std::string weights;
};

struct PlanOptions {
  NetOptions net;
  ClusterOptions cluster;
  std::string calibration;  ///< file, instead of machines that are timed
};

struct PredictOptions {
  NetOptions net;
  ClusterOptions cluster;
  std::string weights;
  std::vector<std::string> images;  ///< files, or folders of them
  int top = 5;                      ///< classes to print of each image
};

struct ImportOptions {
  std::string model;             ///< ONNX file, or weights in safetensors
  std::string net;               ///< of such weights
  std::vector<std::string> set;  ///< of that
  std::string names;             ///< file; empty: modules are called as layers
  std::string out;               ///< without .yaml and .safetensors; empty: the model's name
};

struct ExportOptions {
  std::string net;
  std::vector<std::string> set;
  std::string weights;
  std::string out;  ///< ONNX file
};

void define(CLI::App& command, TrainOptions& options);
void define(CLI::App& command, TestOptions& options);
void define(CLI::App& command, PlanOptions& options);
void define(CLI::App& command, PredictOptions& options);
void define(CLI::App& command, ImportOptions& options);
void define(CLI::App& command, ExportOptions& options);
/// --set, of every command that reads a net file.
CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& set);
/// --keys, of the command that prints the key.
void define_keys(CLI::App& command, std::string& keys);

/// The commands; each returns the program's exit code and throws Error for bad input. `command_line` is how the user
/// called the program, for the line that says how to go on.
int train_command(const TrainOptions& options, const std::string& command_line);
int test_command(const TestOptions& options);
int plan_command(const PlanOptions& options);
int predict_command(const PredictOptions& options);
int import_command(const ImportOptions& options);
int export_command(const ExportOptions& options);
int key_command(const std::string& keys);

}  // namespace convoy
