#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/command_line.hpp"
#include "core/allocator.hpp"
#include "core/output.hpp"
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

/// Adds a command with its options and the function that runs it.
template <class Options, class Run>
void add_command(CLI::App& app, const char* name, const char* help, std::vector<std::function<int()>>& chosen,
                 Run body) {
  CLI::App& command = *app.add_subcommand(name, help);
  const auto options = std::make_shared<Options>();
  convoy::define(command, *options);
  command.callback([&chosen, &command, options, body] {
    chosen.push_back([&command, options, body] {
      convoy::expect_slaves_for(command);
      return body(*options);
    });
  });
}

int run(int argc, char** argv) {
  CLI::App app{"Convoy's master trains and tests convolutional nets, alone or with slaves."};
  app.require_subcommand(1);
  std::vector<std::function<int()>> chosen;
  add_command<convoy::TrainOptions>(app, "train", "train a net", chosen, [&](const convoy::TrainOptions& options) {
    return convoy::train_command(options, joined(argc, argv));
  });
  add_command<convoy::SearchOptions>(
      app, "search", "train a net with many settings, and find the best", chosen,
      [&](const convoy::SearchOptions& options) { return convoy::search_command(options, joined(argc, argv)); });
  add_command<convoy::JobsOptions>(
      app, "jobs", "train a list of nets at the same time, each on one machine or on a group of slaves", chosen,
      [&](const convoy::JobsOptions& options) { return convoy::jobs_command(options, joined(argc, argv)); });
  add_command<convoy::TestOptions>(app, "test", "test saved weights", chosen, convoy::test_command);
  add_command<convoy::PlanOptions>(app, "plan", "print the plan for a net, without training", chosen,
                                   convoy::plan_command);
  add_command<convoy::PredictOptions>(app, "predict", "name the classes of images", chosen, convoy::predict_command);
  add_command<convoy::ImportOptions>(app, "import",
                                     "make a net file and weights from an ONNX model, or weights from a PyTorch model",
                                     chosen, convoy::import_command);
  add_command<convoy::ExportOptions>(app, "export", "make an ONNX model from a net file and weights", chosen,
                                     convoy::export_command);
  add_command<convoy::EnsembleOptions>(app, "ensemble",
                                       "test several trained nets as one, name classes with them, or export them",
                                       chosen, convoy::ensemble_command);
  add_command<convoy::KeyOptions>(app, "key", "print the key with which slaves join", chosen, convoy::key_command);
  if (const auto code = convoy::parse_command_line(app, "convoy-master", argc, argv)) return *code;
  return chosen.front()();
}

}  // namespace

int main(int argc, char** argv) {
  convoy::prepare_output();
  const convoy::ErrorReport report{.program = "convoy-master", .json = convoy::asks_for_json(argc, argv)};
  return convoy::report_errors(report, [&] {
    convoy::settle_library_threads(argv);
    convoy::keep_freed_memory();
    convoy::isolate_stop_signals();
    return run(argc, argv);
  });
}
