#include "slave/study_command.hpp"

#include <CLI/CLI.hpp>

#include "study/stage_text.hpp"
#include "study/study_options.hpp"

namespace convoy {
namespace {

/// The convolutions of nets/cifar10-50-500.yaml.
constexpr const char* kStages = "3x32x32:50x5x5:p2,50x16x16:500x5x5:p2";

struct StudyCommand {
  std::vector<std::string> stages{kStages};
  std::string devices = "auto";
  study::StudyOptions study;
};

int run_study_command(StudyCommand& options) {
  for (const std::string& text : options.stages) {
    try {
      options.study.nets.push_back(study::stages_from(text));
    } catch (const Error& error) {
      fail("--stages: {}", error.what());
    }
  }
  options.study.program = "convoy-slave";
  return study::study_here(options.study, options.devices);
}

}  // namespace

void add_study(CLI::App& app, std::optional<int>& code) {
  auto options = std::make_shared<StudyCommand>();
  CLI::App& command = *app.add_subcommand(
      "study",
      "measure energy and speed of a net's convolutions, forward and backward, without a master, at several batch "
      "sizes; "
      "writes study.csv, trials.csv, manifest.json and a script for gnuplot to the folder of --out");
  command
      .add_option("--stages", options->stages,
                  "convolutions of a net, as `convoy-bench energy --print-stages` prints them; repeatable, for several "
                  "nets")
      ->capture_default_str();
  study::define_study_options(command, options->study, options->devices);
  command.callback([options, &code] { code = run_study_command(*options); });
}

}  // namespace convoy
