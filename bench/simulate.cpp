#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "bench/commands.hpp"
#include "bench/machines.hpp"
#include "master/commands/options.hpp"

namespace convoy {
namespace {

struct SimulateOptions {
  std::string net = "nets/cifar10-500-1500.yaml";
  std::vector<std::string> set;
  int batch = 256;
  std::vector<int> slaves{1, 2, 3, 4, 8};
  double bandwidth = 1000.0;  // Mbit/s
  Machines machines;
  std::vector<std::string> exchanges{"star", "ring"};
  std::string wire = "fp32";
  int micro_batches = 0;
  std::string format = "text";
};

void print_head(bool csv) {
  if (csv) {
    fmt::print(
        "slaves,exchange,seconds,speedup,working,plan,master_out_mb,master_in_mb,busiest_slave_mb,joules_per_image,"
        "watts_not_known\n");
  } else {
    fmt::print("{:>6} {:<9}{:>9}{:>9}{:>8}{:>14}{:>13}{:>17}{:>9}  plan\n", "slaves", "exchange", "seconds", "speedup",
               "working", "master out/MB", "master in/MB", "busiest slave/MB", "J/image");
  }
}

void run_simulate(const SimulateOptions& options) {
  const Cut parts = cut(read_net(options.net, options.set));
  if (parts.trunk.empty()) fail("{}: the net has no convolutional layer, so there is nothing to share", options.net);
  const bool csv = options.format == "csv";
  bool first = true;
  for (const std::string& name : options.exchanges) {
    const Wishes wishes{.exchange = exchange_wish(name),
                        .micro_batches = options.micro_batches,
                        .wire = number_type_from(options.wire),
                        .objective = options.machines.objective,
                        .terms = options.machines.terms};
    for (const int slaves : options.slaves) {
      const Calibration calibration = calibration_of(options.machines, parts, options.batch, slaves, options.bandwidth);
      const SimulatedPoint point = simulate_point(parts, calibration, wishes);
      const Simulated& step = point.choice.predicted;
      double busiest = 0.0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(slaves); ++i) {
        busiest = std::max({busiest, step.nodes[i].bytes_in, step.nodes[i].bytes_out});
      }
      const NodeUse& master = step.nodes.back();
      const double speedup = point.seconds_alone / step.seconds;
      const std::string& plan = point.plan;
      const StepEnergy& energy = point.choice.energy;
      const std::string joules = joules_per_image(energy, options.batch);
      if (std::exchange(first, false)) print_head(csv);
      if (csv) {
        fmt::print("{},{},{:.6f},{:.4f},{},\"{}\",{:.3f},{:.3f},{:.3f},{},{}\n", slaves, name, step.seconds, speedup,
                   point.working, plan, master.bytes_out / 1e6, master.bytes_in / 1e6, busiest / 1e6, joules,
                   unknown_power(energy));
      } else {
        fmt::print("{:>6} {:<9}{:>9.3f}{:>9.2f}{:>8}{:>14.1f}{:>13.1f}{:>17.1f}{:>9}  {}{}\n", slaves, name,
                   step.seconds, speedup, point.working, master.bytes_out / 1e6, master.bytes_in / 1e6, busiest / 1e6,
                   joules.empty() ? "-" : joules, plan,
                   energy.tells() && !energy.unknown.empty()
                       ? fmt::format("; the watts of {} are not known", unknown_power(energy))
                       : "");
      }
      std::fflush(stdout);
    }
  }
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App& command = *app.add_subcommand(
      "simulate",
      "time of a training step on described machines, or on machines that a run has timed: the plan that the planner "
      "chooses, simulated by its discrete-event model with contention on the links, and the speedup over the fastest "
      "machine alone. Slaves that would only slow the others down get no work");
  command.add_option("--net", options->net, "net file")->capture_default_str();
  add_set_option(command, options->set);
  command.add_option("--batch", options->batch, "images")->check(whole_number(1, 65536))->capture_default_str();
  command.add_option("--slaves", options->slaves, "numbers of slaves, separated by commas")
      ->delimiter(',')
      ->check(whole_number(1, 256))
      ->capture_default_str();
  command.add_option("--bandwidth", options->bandwidth, "bandwidth of each machine's link, each way, in Mbit/s")
      ->check(positive_number())
      ->capture_default_str();
  add_options(command, options->machines);
  command.add_option("--exchange", options->exchanges, "star, ring, thesis, or auto for the best, separated by commas")
      ->delimiter(',')
      ->check(one_of({"star", "ring", "thesis", "auto"}))
      ->capture_default_str();
  command.add_option("--wire", options->wire, "number type of maps and gradients on the wire")
      ->check(one_of({"fp32", "bf16", "fp16", "int8"}))
      ->capture_default_str();
  command.add_option("--micro-batches", options->micro_batches, "equal parts of the batch, pipelined; 0: the best")
      ->check(whole_number(0, 65536))
      ->capture_default_str();
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_simulate(*options); });
}

}  // namespace convoy
