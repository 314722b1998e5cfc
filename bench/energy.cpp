// The study of a net's energy (study/), with nets from net files.

#include <fmt/core.h>

#include "bench/commands.hpp"
#include "bench/net_settings.hpp"
#include "master/commands/options.hpp"
#include "master/report/gnuplot.hpp"
#include "study/stage_text.hpp"
#include "study/study_options.hpp"

namespace convoy {
namespace {

struct EnergyStudy {
  std::string net = "nets/cifar10-50-500.yaml";
  std::vector<std::string> set;
  std::vector<std::string> filters{""};
  std::string devices = "cpu";
  bool print_stages = false;
  study::StudyOptions study;
};

int run_energy(EnergyStudy& options) {
  for (const std::string& filters : options.filters) {
    const std::vector<std::string> set = settings_of(filters, options.net, options.set);
    options.study.nets.push_back(cut(read_net(options.net, set)).trunk);
  }
  if (options.print_stages) {
    for (const auto& stages : options.study.nets) fmt::print("{}\n", study::text_of(stages));
    return 0;
  }
  options.study.program = "convoy-bench";
  options.study.draw = run_gnuplot;
  return study::study_here(options.study, options.devices);
}

}  // namespace

void add_energy(CLI::App& app, int& code) {
  auto options = std::make_shared<EnergyStudy>();
  CLI::App& command = *app.add_subcommand(
      "energy",
      "energy and speed of a net's convolutions, forward and backward, on each device at several batch sizes and "
      "numbers "
      "of filters, with intervals; writes study.csv, trials.csv, manifest.json and a plot to the folder of --out. "
      "`convoy-slave study` does the same on a machine without net files, such as a phone");
  command.add_option("--net", options->net, "net file whose stages are measured")->capture_default_str();
  add_set_option(command, options->set);
  command.add_option("--filters", options->filters, "filters of the stages, as in 50:500,150:800 (default: the net's)")
      ->delimiter(',');
  command.add_flag("--print-stages", options->print_stages,
                   "print the convolutions as `convoy-slave study --stages` takes them, a line for each "
                   "value of --filters, and end");
  study::define_study_options(command, options->study, options->devices);
  command.callback([options, &code] { code = run_energy(*options); });
}

}  // namespace convoy
