// What it costs a training step that a thread reads an energy meter meanwhile.

#include <fmt/core.h>

#include "bench/commands.hpp"
#include "bench/statistics.hpp"
#include "bench/training_steps.hpp"
#include "core/stopwatch.hpp"
#include "energy/meters.hpp"
#include "energy/run_energy.hpp"
#include "master/commands/options.hpp"

namespace convoy {
namespace {

struct SamplingOptions {
  std::string net = "nets/cifar10-50-500.yaml";
  std::vector<std::string> set;
  std::string device = "cpu";
  int threads = 0;
  int batch = 64;
  std::string meter;
  int rounds = 100;
  double seconds = 0.5;
  std::string format = "text";
};

/// Returns the seconds of a step, as a mean over at least `seconds`. With `energy` each step is counted and reported,
/// as in a run.
double seconds_per_step(TrainingSteps& steps, double seconds, energy::RunEnergy* energy) {
  if (energy != nullptr) energy->begin();
  const Stopwatch whole;
  Stopwatch step;
  int count = 0;
  do {
    steps.step();
    if (energy != nullptr) {
      energy->count(step.restart(), 0.0, 0.0);
      energy->report();
    }
    ++count;
  } while (whole.seconds() < seconds);
  return whole.seconds() / count;
}

void run_sampling(const SamplingOptions& options) {
  TrainingSteps steps(options.net, options.set, options.batch, options.device, {.threads = options.threads});
  const auto machine = energy::this_machine();
  std::vector<double> ratios;
  std::vector<double> cores;
  std::string name;
  const auto sampled = [&] {
    energy::MemberMeter meter = energy::meter_for_member(*machine, options.meter, is_gpu(steps.device().info().name));
    if (!meter.row) fail("{}", meter.why);
    name = meter.row->info.name;
    energy::Sampler sampler(std::move(*meter.row));
    energy::RunEnergy run(&sampler, "");
    const Stopwatch watch;
    const double seconds = seconds_per_step(steps, options.seconds, &run);
    cores.push_back(sampler.cost() / watch.seconds());
    return seconds;
  };
  const auto alone = [&] { return seconds_per_step(steps, options.seconds, nullptr); };
  sampled();  // warms up, and finds out whether there is a meter
  cores.clear();
  for (int round = 0; round < options.rounds; ++round) {
    // The order alternates, so that a machine that slows down favours neither.
    const bool first = round % 2 == 0;
    const double a = first ? sampled() : alone();
    const double b = first ? alone() : sampled();
    ratios.push_back(first ? a / b : b / a);
  }
  const Quartiles ratio = quartiles(ratios);
  const auto [low, high] = median_interval(ratios);
  const double core = quartiles(cores).median;
  if (options.format == "csv") {
    fmt::print("net,batch,device,meter,rounds,ratio,least,most,lower_quartile,upper_quartile,core\n");
    fmt::print("{},{},{},{},{},{:.5f},{:.5f},{:.5f},{:.5f},{:.5f},{:.5f}\n", steps.net().name, options.batch,
               options.device, name, options.rounds, ratio.median, low, high, ratio.low, ratio.high, core);
    return;
  }
  fmt::print("{}, batch {}, {}, meter {}\n", steps.net().name, options.batch, options.device, name);
  fmt::print(
      "a step with sampling / without: median {:.4f}, 95 % interval {:.4f} to {:.4f}, quartiles {:.4f} to {:.4f}\n",
      ratio.median, low, high, ratio.low, ratio.high);
  fmt::print("the sampling thread takes {:.2f} % of a core\n", 100 * core);
}

}  // namespace

void add_sampling(CLI::App& app) {
  auto options = std::make_shared<SamplingOptions>();
  CLI::App& command = *app.add_subcommand(
      "sampling",
      "time of a training step while a thread reads an energy meter, divided by the time of a step without; both are "
      "measured in turns, in alternating order; prints the median of the rounds' ratios with its interval and "
      "quartiles");
  command.add_option("--net", options->net, "net file")->capture_default_str();
  add_set_option(command, options->set);
  command.add_option("--device", options->device, "device")->capture_default_str();
  command.add_option("--threads", options->threads, "threads; 0 is all cores")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  command.add_option("--batch", options->batch, "images")->check(whole_number(1, 65536))->capture_default_str();
  command.add_option("--meter", options->meter,
                     "meter that is read: a name of convoy-slave --list-meters, shelly:ADDRESS, tasmota:ADDRESS or "
                     "csv:FILE (default: the best for the whole machine, else for the device)");
  command.add_option("--rounds", options->rounds, "rounds, each with a part with readings and a part without")
      ->check(whole_number(1, 10000))
      ->capture_default_str();
  command.add_option("--seconds", options->seconds, "least seconds of each part")
      ->check(number(0.01, 3600))
      ->capture_default_str();
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_sampling(*options); });
}

}  // namespace convoy
