#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <functional>

#include "core/allocator.hpp"
#include "core/error.hpp"
#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "devices/library_threads.hpp"
#include "master/commands/options.hpp"
#include "master/commands/run_options.hpp"

namespace {

std::string joined(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += (i > 0 ? " " : "") + convoy::shell_word(argv[i]);
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  convoy::settle_library_threads(argv);
  convoy::isolate_stop_signals();
  convoy::keep_freed_memory();
  CLI::App app{"Convoy's master trains and tests convolutional nets, alone or with slaves"};
  app.require_subcommand(1);
  convoy::TrainOptions train;
  convoy::TestOptions test;
  convoy::PlanOptions plan;
  CLI::App& train_app = *app.add_subcommand("train", "train a net");
  CLI::App& test_app = *app.add_subcommand("test", "test saved weights");
  CLI::App& plan_app = *app.add_subcommand("plan", "print the plan for a net, without training");
  convoy::PredictOptions predict;
  CLI::App& predict_app = *app.add_subcommand("predict", "name the classes of images");
  convoy::define(predict_app, predict);
  convoy::ImportOptions import;
  convoy::ExportOptions export_to;
  CLI::App& import_app =
      *app.add_subcommand("import", "make a net file and weights from an ONNX model, or weights from a PyTorch model");
  CLI::App& export_app = *app.add_subcommand("export", "make an ONNX model from a net file and weights");
  convoy::define(import_app, import);
  convoy::define(export_app, export_to);
  std::string keys;
  CLI::App& key_app = *app.add_subcommand("key", "print the key with which slaves join");
  convoy::define_keys(key_app, keys);
  convoy::define(train_app, train);
  convoy::define(test_app, test);
  convoy::define(plan_app, plan);
  try {
    app.parse(argc, argv);
    if (train_app.parsed()) return convoy::train_command(train, joined(argc, argv));
    if (test_app.parsed()) return convoy::test_command(test);
    if (predict_app.parsed()) return convoy::predict_command(predict);
    if (import_app.parsed()) return convoy::import_command(import);
    if (export_app.parsed()) return convoy::export_command(export_to);
    if (key_app.parsed()) return convoy::key_command(keys);
    return convoy::plan_command(plan);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? convoy::kSuccess : convoy::kUsage;
  } catch (const convoy::PeerLost& error) {
    fmt::print(stderr, "convoy-master: {}\n", error.what());
    return convoy::kSlaveLost;
  } catch (const convoy::DeviceLost& error) {
    convoy::end_without_device("convoy-master", error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "convoy-master: {}\n", error.what());
    return convoy::kFailure;
  }
}
