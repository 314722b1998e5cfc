// A grid of trainings, simulated or run, as a table and as plots in the style of the literature.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "bench/commands.hpp"
#include "bench/machines.hpp"
#include "bench/net_settings.hpp"
#include "bench/real_run.hpp"
#include "bench/statistics.hpp"
#include "bench/sweep_plot.hpp"
#include "core/files.hpp"
#include "master/commands/options.hpp"

namespace convoy {
namespace {

struct SweepOptions {
  std::string net = "nets/cifar10-500-1500.yaml";
  std::vector<std::string> set;
  std::vector<std::string> filters{""};
  std::vector<int> batches{64};
  std::vector<int> slaves{1, 2, 4, 8};
  std::vector<double> bandwidths{1000.0};
  std::vector<std::string> exchanges{"auto"};
  std::vector<std::string> wires{"fp32"};
  Machines machines;
  bool really = false;
  std::string data = "glyphs";
  int steps = 8;
  int threads = 1;
  std::string out = "sweep";
};

std::string filters_of(const Cut& parts) {
  std::vector<int> counts;
  for (const Stage& stage : parts.trunk) counts.push_back(stage.conv.filters);
  return fmt::format("{}", fmt::join(counts, ":"));
}

/// One net at one batch size. All its points share the time on one machine.
class Series {
 public:
  Series(const SweepOptions& options, const std::string& filters, int batch)
      : options_(options),
        set_(settings_of(filters, options.net, options.set)),
        parts_(cut(read_net(options.net, set_))),
        batch_(batch) {
    if (parts_.trunk.empty()) fail("{}: the net has no convolutional layer, so there is nothing to share", options.net);
  }

  SweepPoint simulate(int slaves, double mbits, const std::string& exchange, const std::string& wire) const {
    const Calibration calibration = calibration_of(options_.machines, parts_, batch_, slaves, mbits);
    const SimulatedPoint point = simulate_point(parts_, calibration,
                                                {.exchange = exchange_wish(exchange),
                                                 .wire = number_type_from(wire),
                                                 .objective = options_.machines.objective,
                                                 .terms = options_.machines.terms});
    SweepPoint row = start_of_row(slaves, mbits, exchange, wire);
    row.seconds = row.low = row.high = point.choice.predicted.seconds;
    row.alone = point.seconds_alone;
    row.working = point.working;
    row.plan = point.plan;
    if (const auto joules = point.choice.energy.joules()) row.joules_per_image = *joules / batch_;
    row.watts_not_known = unknown_power(point.choice.energy);
    return row;
  }

  SweepPoint run(int slaves, const std::string& exchange, const std::string& wire) {
    if (alone_ == 0.0) alone_ = quartiles(run(0, {}).seconds).median;
    std::vector<std::string> words{"--wire", wire};
    if (exchange == "thesis") {
      words.insert(words.end(), {"--plan", exchange});
    } else if (exchange != "auto") {
      words.insert(words.end(), {"--exchange", exchange});
    }
    const RealSteps steps = run(slaves, words);
    const Quartiles seconds = quartiles(steps.seconds);
    SweepPoint row = start_of_row(slaves, 0.0, exchange, wire);
    row.seconds = seconds.median;
    row.low = seconds.low;
    row.high = seconds.high;
    row.alone = alone_;
    row.working = slaves;
    row.master_mib = steps.master_mib;
    row.slave_mib = steps.slave_mib;
    return row;
  }

 private:
  SweepPoint start_of_row(int slaves, double mbits, const std::string& exchange, const std::string& wire) const {
    return {.filters = filters_of(parts_),
            .batch = batch_,
            .slaves = slaves,
            .mbits = mbits,
            .exchange = exchange,
            .wire = wire};
  }

  /// Runs a training and returns its steps except the first, which includes one-time work.
  RealSteps run(int slaves, const std::vector<std::string>& words) const {
    const std::string folder = options_.out + "/run";
    std::filesystem::remove_all(folder);
    const std::string threads = std::to_string(options_.threads);
    RealRun run{.master = {options_.net, "--data", options_.data, "--batch", std::to_string(batch_), "--steps",
                           std::to_string(options_.steps + 1), "--device", "cpu", "--threads", threads, "--out", folder,
                           "--checkpoint-seconds", "1000000"},
                .slave = {"--device", "cpu", "--threads", threads},
                .slaves = slaves};
    for (const std::string& each : set_) run.master.insert(run.master.end(), {"--set", each});
    run.master.insert(run.master.end(), words.begin(), words.end());
    RealSteps steps = run_really(run);
    if (steps.seconds.size() < 2) {
      fail("the data has too few images for {} steps of {} images; use fewer --steps", options_.steps + 1, batch_);
    }
    steps.seconds.erase(steps.seconds.begin());
    std::filesystem::remove_all(folder);
    return steps;
  }

  const SweepOptions& options_;
  std::vector<std::string> set_;
  Cut parts_;
  int batch_;
  double alone_ = 0.0;
};

void run_sweep(const SweepOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error) fail("{}: the folder cannot be created: {}", options.out, error.message());
  const std::string file = options.out + "/sweep.csv";
  std::vector<SweepPoint> points;
  std::string table = csv_header() + "\n";
  const auto put = [&](const SweepPoint& point) {
    if (points.empty()) fmt::print("{}\n", csv_header());
    points.push_back(point);
    table += csv_row(point) + "\n";
    fmt::print("{}\n", csv_row(point));
    std::fflush(stdout);
    write_text(file, table);  // rows already measured are not lost where a later point fails
  };
  for (const std::string& filters : options.filters) {
    for (const int batch : options.batches) {
      Series series(options, filters, batch);
      for (const std::string& exchange : options.exchanges) {
        for (const std::string& wire : options.wires) {
          for (const double mbits : options.bandwidths) {
            for (const int slaves : options.slaves) {
              put(options.really ? series.run(slaves, exchange, wire) : series.simulate(slaves, mbits, exchange, wire));
            }
          }
        }
      }
    }
  }
  fmt::print(stderr, "{}; {}\n", file, draw_sweep(points, options.out));
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App& command = *app.add_subcommand(
      "sweep",
      "time of a training step over a grid of slaves, batch sizes, filter counts, bandwidths, exchanges and number "
      "types, simulated or (with --really) run by a master and slaves on this machine; writes sweep.csv and plots to "
      "the folder of --out. bench/lan.py runs on shaped links");
  const auto list = [&](const std::string& name, auto& values, const std::string& text) {
    return command.add_option(name, values, text)->delimiter(',')->capture_default_str();
  };
  command.add_option("--net", options->net, "net file")->capture_default_str();
  add_set_option(command, options->set);
  list("--filters", options->filters, "filters of the stages, as in 50:500,150:800 (default: the net's)");
  list("--batch", options->batches, "images a step")->check(whole_number(1, 65536));
  list("--slaves", options->slaves, "numbers of slaves")->check(whole_number(1, 256));
  auto* bandwidth = list("--bandwidth", options->bandwidths, "bandwidth of each machine's link, each way, in Mbit/s");
  bandwidth->check(positive_number());
  list("--exchange", options->exchanges, "star, ring, thesis, or auto for the best")
      ->check(one_of({"star", "ring", "thesis", "auto"}));
  list("--wire", options->wires, "number types of maps and gradients on the wire")
      ->check(one_of({"fp32", "bf16", "fp16", "int8"}));
  add_options(command, options->machines);
  command.add_flag("--really", options->really, "run each point with processes on this machine")->excludes(bandwidth);
  command.add_option("--data", options->data, "with --really: data, as for convoy-master train")->capture_default_str();
  command.add_option("--steps", options->steps, "with --really: timed steps of each point")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command.add_option("--threads", options->threads, "with --really: threads of each process")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command.add_option("--out", options->out, "output folder")->capture_default_str();
  command.callback([options] { run_sweep(*options); });
}

}  // namespace convoy
