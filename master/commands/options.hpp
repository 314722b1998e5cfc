// The options and commands of the master's command line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "devices/registry.hpp"
#include "nets/graph/combination.hpp"
#include "plan/step_energy.hpp"
#include "train/outer_step.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace convoy {

/// Who computes the dense layers of heads on this machine.
enum class HeadsOn : std::uint8_t {
  automatic,  ///< the device if it has memory of its own, otherwise the host
  host,
  device
};

/// The options of all commands that run a net.
struct NetOptions {
  std::string net;               ///< net file
  std::vector<std::string> set;  ///< overrides of fields of the net file
  std::string data = "glyphs";   ///< folder of a data set, or "glyphs"
  Corrupt corrupt = Corrupt::refuse;
  double val_split = 0.0;  ///< fraction of the training images of each class that is set aside for validation
  std::string device = "auto";
  DeviceOptions device_options;
  HeadsOn heads = HeadsOn::automatic;
  int batch = 0;  ///< images in a step; 0 for the net file's value
  std::uint64_t seed = 1;
  std::string format = "text";
};

/// The options for runs with slaves.
/// Who computes the first dense layer of a net in training.
enum class DenseBy : std::uint8_t {
  master,
  members,   ///< each of them from the channels that it holds (nets/graph/dense_slices.hpp)
  automatic  ///< whichever is faster
};

struct ClusterOptions {
  int slaves = 0;
  int least_slaves = 0;  ///< a run with fewer slaves left waits for more
  std::string listen = "tcp://*:5570";
  bool insecure = false;  ///< links are neither encrypted nor authenticated
  std::string keys;       ///< file of the master's keys; if empty, the user's default file
  bool share = false;     ///< whether the master's device takes a share too
  std::string memory;     ///< largest memory for the master's share, for parse_memory
  std::string shares;     ///< fixed shares such as "3,2,1", in the order of the members; empty for measured speeds
  std::string plan;       ///< file of a fixed plan, or "thesis"; empty to choose a plan
  std::string exchange;   ///< "star" or "ring"; empty for the exchange of the plan
  std::string layout;     ///< "filters" or "samples"; empty or "auto" for the faster
  DenseBy dense = DenseBy::master;
  int micro_batch = 0;       ///< images in a micro-batch; 0 for the micro-batches of the plan
  std::string wire;          ///< number type on the wire; empty for the type of the plan, or fp32
  bool only_slaves = false;  ///< whether this machine does not compute in the slaves' place, even if it is faster
  bool keep_images = false;  ///< whether slaves keep images, so that each travels once
  int verify = 0;            ///< number of steps between two verifications of a slave's work; 0 for none
  std::string cache_maps;    ///< memory for the maps of a frozen trunk, for parse_memory; empty for none
  Objective objective = Objective::time;
  EnergyTerms terms;       ///< of the energy that is predicted, and of the energy of a run
  std::string power_from;  ///< calibration of an earlier run whose machines have the same names and power; may be empty
};

/// The options for the energy of a run.
struct EnergyOptions {
  std::string meter;  ///< name of the meter of the master's machine; empty: the best one; "none": no meter
  EnergyTerms terms;  ///< declared and assumed powers
};

/// What a step takes, and when gradients meet weights.
enum class Sync : std::uint8_t {
  split,  ///< all members share one batch
  join,   ///< a batch for each replica, and one update by the mean of their gradients
  none    ///< one batch, of the replica whose gradients come next
};

/// Who updates the weights.
enum class Server : std::uint8_t {
  central,     ///< the master, all of them
  distributed  ///< members, each of them some filters of each stage
};

struct TrainOptions {
  NetOptions net;
  ClusterOptions cluster;
  int epochs = 0;                   ///< 0 for the net file's value
  long steps = 0;                   ///< number of steps after which the run stops; 0 for all
  std::string out;                  ///< run folder; if empty, runs/NET-NUMBER with the first free number
  std::string weights;              ///< file of initial weights; empty for random weights
  std::vector<std::string> except;  ///< layers that keep their random weights
  bool new_outputs = false;         ///< whether the net gets an output for each class of the data, with random weights
  Sync sync = Sync::split;
  std::optional<Server> server;  ///< with Sync::join and Sync::none; central unless given
  int replicas = 0;              ///< with Sync::join and Sync::none; 0 for one for each slave
  int backups = 0;               ///< of a step of Sync::join, the gradients that come last and are dropped
  int sync_every = 0;            ///< with Sync::join, steps for which replicas train by themselves; 0 for none
  int sync_up_to = 0;            ///< up to which sync_every grows as the learning rate falls; 0 if it does not
  OuterStep outer;               ///< with sync_every
  /// Whether one replica at a time is sent weights, and one at a time sends gradients; with Sync::none unless given.
  std::optional<bool> semaphore;
  std::optional<int> staleness;  ///< with Sync::none, the bound
  bool scale_rate = false;       ///< whether the learning rate is multiplied by the number of batches of a step
  bool resume = false;
  /// The options that config.yaml stores, by name: "slaves": "2".
  std::map<std::string, std::string> given;
  double checkpoint_seconds = 60.0;
  double snapshot_seconds = 0.0;
  std::string meter;  ///< of this machine; empty for the best, "none" for none
};

/// The options of a search. Those of a training are for each of its trials.
struct SearchOptions {
  TrainOptions train;              ///< without net and run folder; train.out is the folder of the search
  std::string space;               ///< file; if empty, that of the search that is resumed
  std::vector<std::string> fixed;  ///< fields of the net that are the same in all trials
  bool resume = false;
  bool has_data = false;       ///< whether --data was given, for this call or for the search that is resumed
  bool has_seed = false;       ///< whether --seed was given, for this call or for the search that is resumed
  bool has_val_split = false;  ///< whether --val-split was given, for this call or for the search that is resumed
  int at_once = 1;      ///< number of trials under way at the same time; from 2 on, each trial trains on one machine
  int master_jobs = 1;  ///< with several trials at once, the number of trials that the master trains at the same time
  // Bounds that replace those of the space; 0 where it decides.
  long trials = 0;
  long images = 0;
  double hours = 0.0;
};

/// The options of a list of jobs. Options of a training hold for each job.
struct JobsOptions {
  TrainOptions train;  ///< without net, data and run folder; train.out is the folder of all jobs
  std::string file;    ///< list of the jobs; if empty, the list in the folder that is resumed
  bool resume = false;
  int master_jobs = 1;  ///< jobs that the master trains at the same time
};

struct TestOptions {
  NetOptions net;
  ClusterOptions cluster;
  EnergyOptions energy;
  std::string weights;
};

struct PlanOptions {
  NetOptions net;
  ClusterOptions cluster;
  std::string calibration;  ///< file with the times of a run's machines; if empty, slaves are timed
  std::string machines;     ///< machines that are described instead, such as 4x240@1000
};

struct PredictOptions {
  NetOptions net;
  ClusterOptions cluster;
  EnergyOptions energy;
  std::string weights;
  std::vector<std::string> images;  ///< image files, or folders of them
  int top = 5;                      ///< number of classes to print for each image
};

struct ImportOptions {
  std::string model;                 ///< ONNX file, or safetensors file of weights
  std::string net;                   ///< net file for a file of weights
  std::vector<std::string> set;      ///< overrides of fields of that net file, or of the net of the ONNX file
  std::string names;                 ///< file of module names; if empty, modules are named like layers
  std::vector<std::string> outputs;  ///< outputs of the ONNX model to import; if empty, all
  std::string out;                   ///< path without .yaml and .safetensors; if empty, the model's name
  bool force = false;                ///< whether to overwrite files
};

struct ExportOptions {
  std::string net;
  std::vector<std::string> set;
  std::string weights;
  std::string out;     ///< ONNX file to write
  bool force = false;  ///< whether to overwrite it
};

struct EnsembleOptions {
  NetOptions net;  ///< without net file and overrides
  ClusterOptions cluster;
  std::vector<std::string> members;  ///< see read_member()
  Combination how = Combination::probabilities;
  std::vector<std::string> images;  ///< image files, or folders of them; if empty, the ensemble is tested
  std::string out;                  ///< ONNX file to write instead; may be empty
  bool force = false;               ///< whether to overwrite it
  int top = 5;                      ///< number of classes to print for each image
  bool in_turn = false;             ///< whether all machines together compute one member after another
  int master_jobs = 1;              ///< otherwise, the number of members that the master computes at the same time
  // Whether the command line gives them; otherwise those of the members' runs are taken.
  bool has_data = false;
  bool has_corrupt = false;
  bool has_seed = false;
};

struct KeyOptions {
  std::string action;                   ///< "add", "list", "revoke" or "shared"; empty to print the key for all slaves
  std::string name;                     ///< name of the slave, or "on" or "off" for `shared`
  bool once = false;                    ///< whether the key to add serves one slave only
  std::string listen = "tcp://*:5570";  ///< address for the line that `add` prints
  std::string keys;                     ///< file; if empty, the user's default file
  bool make = false;                    ///< whether to make the file of `keys` if it does not exist
};

void define(CLI::App& command, TrainOptions& options);
void define(CLI::App& command, SearchOptions& options);
void define(CLI::App& command, JobsOptions& options);
void define(CLI::App& command, TestOptions& options);
void define(CLI::App& command, PlanOptions& options);
void define(CLI::App& command, PredictOptions& options);
void define(CLI::App& command, ImportOptions& options);
void define(CLI::App& command, ExportOptions& options);
void define(CLI::App& command, EnsembleOptions& options);
/// Defines the options for the data, the device, the output and the slaves, for commands that read no net file.
void define_running(CLI::App& command, NetOptions& net, ClusterOptions& cluster);
/// Defines the options that train and search have in common.
void define_training(CLI::App& command, TrainOptions& options);
/// Defines the number of slaves, with this help text, and how they reach the master.
void define_slaves(CLI::App& command, ClusterOptions& options, const std::string& help);
/// Defines --checkpoint-seconds.
void define_checkpoints(CLI::App& command, TrainOptions& options);
/// Removes the options for slaves from those of a run if the command line now has --slaves 0.
std::map<std::string, std::string> run_to_take_over(const CLI::App& command, std::map<std::string, std::string> run);
/// Defines --set, for commands that read a net file.
CLI::Option* add_set_option(CLI::App& command, std::vector<std::string>& set);
void define(CLI::App& command, KeyOptions& options);

/// Throws UsageError if the parsed command has an option that needs slaves, but has no slaves.
void expect_slaves_for(const CLI::App& command);

// Each command returns the program's exit code and throws Error for bad input. `command_line` is the user's command
// line, from which the command to resume the run is made.
int train_command(const TrainOptions& options, const std::string& command_line);
int search_command(const SearchOptions& options, const std::string& command_line);
int jobs_command(const JobsOptions& options, const std::string& command_line);
int test_command(const TestOptions& options);
int plan_command(const PlanOptions& options);
int predict_command(const PredictOptions& options);
int import_command(const ImportOptions& options);
int export_command(const ExportOptions& options);
int ensemble_command(const EnsembleOptions& options);
int key_command(const KeyOptions& options);

}  // namespace convoy
