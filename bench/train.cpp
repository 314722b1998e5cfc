#include <fmt/core.h>

#include <algorithm>

#include "bench/bare_convolution.hpp"
#include "bench/commands.hpp"
#include "bench/statistics.hpp"
#include "bench/training_steps.hpp"
#include "core/stopwatch.hpp"
#include "master/commands/options.hpp"

namespace convoy {
namespace {

struct TrainBenchOptions {
  std::string net = "nets/cifar10-50-500.yaml";
  std::vector<std::string> set;
  std::string device = "cpu";
  int threads = 1;
  int batch = 64;
  int repeats = 7;
  bool no_bare = false;
  bool tf32 = false;
  std::string compute = "fp32";
  std::string format = "text";
};

/// Returns the seconds of all bare convolution passes of one training step, each in its fastest layout. No step is
/// faster that computes one primitive for each stage and pass.
double bare_seconds(const std::vector<BareLayouts>& stages) {
  double seconds = 0.0;
  const auto fastest = [&](std::size_t stage, void (BareConvolution::*pass)()) {
    return std::ranges::min(seconds_by_layout(stages[stage], pass));
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    seconds += fastest(s, &BareConvolution::forward) + fastest(s, &BareConvolution::filter_gradient);
    if (s > 0) seconds += fastest(s, &BareConvolution::input_gradient);
  }
  return seconds;
}

void print_result(const TrainBenchOptions& options, const std::string& net, const std::string& device,
                  const Quartiles& rate, const Quartiles& ratio, bool compared) {
  if (options.format == "csv") {
    fmt::print("net,batch,device,threads,images_s,low,high,bare_to_step,low,high\n");
    fmt::print("{},{},{},{},{:.2f},{:.2f},{:.2f}", net, options.batch, options.device, options.threads, rate.median,
               rate.low, rate.high);
    fmt::print("{}\n", compared ? fmt::format(",{:.3f},{:.3f},{:.3f}", ratio.median, ratio.low, ratio.high) : ",,,");
    return;
  }
  fmt::print("{}, batch {}, {} ({}): {:.1f} images/s ({:.1f} to {:.1f})\n", net, options.batch, options.device, device,
             rate.median, rate.low, rate.high);
  if (compared) {
    fmt::print("bare convolution time / step time: {:.3f} ({:.3f} to {:.3f})\n", ratio.median, ratio.low, ratio.high);
  }
}

void run_train(const TrainBenchOptions& options) {
  TrainingSteps steps(options.net, options.set, options.batch, options.device,
                      {.threads = options.threads, .tf32 = options.tf32, .bf16 = options.compute == "bf16"});
  std::vector<BareLayouts> bare;
  for (const Stage& stage : steps.trunk()) {
    if (options.no_bare) break;
    if (stage.kind != StageKind::convolution) continue;
    auto layouts = make_bare_for({.stage = stage,
                                  .filters = stage.conv.filters,
                                  .batch = options.batch,
                                  .device = options.device,
                                  .threads = options.threads,
                                  .tf32 = options.tf32});
    if (!layouts.empty()) bare.push_back(std::move(layouts));
  }
  std::vector<double> rates;
  std::vector<double> ratios;
  for (int round = -1; round < options.repeats; ++round) {
    const double before = bare_seconds(bare);
    const Stopwatch watch;
    steps.step();
    const double seconds = watch.seconds();
    if (round < 0) continue;
    rates.push_back(options.batch / seconds);
    if (!bare.empty()) ratios.push_back(before / seconds);
  }
  const Quartiles rate = quartiles(rates);
  const Quartiles ratio = quartiles(ratios);
  print_result(options, steps.net().name, steps.device().info().description, rate, ratio, !bare.empty());
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainBenchOptions>();
  CLI::App& command = *app.add_subcommand(
      "train",
      "images/s of whole training steps on this machine (forward, loss, backward, update; random "
      "images), and the time of the bare convolutions of oneDNN (on NVIDIA GPUs, of cuDNN), divided "
      "by that of a step");
  command.add_option("--net", options->net, "net file")->capture_default_str();
  add_set_option(command, options->set);
  command.add_option("--device", options->device, "device")->capture_default_str();
  command.add_option("--threads", options->threads, "threads")->check(whole_number(1, 1024))->capture_default_str();
  command.add_option("--batch", options->batch, "images")->check(whole_number(1, 65536))->capture_default_str();
  command.add_option("--repeats", options->repeats, "steps")->check(whole_number(1, 10000))->capture_default_str();
  command.add_flag("--no-bare", options->no_bare, "do not run the bare convolutions");
  command.add_flag("--tf32", options->tf32, "let NVIDIA GPUs round factors to 10 bits of mantissa, for speed");
  command.add_option("--compute", options->compute, "precision of the cpu device: fp32 or bf16")
      ->check(one_of({"fp32", "bf16"}))
      ->capture_default_str();
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_train(*options); });
}

}  // namespace convoy
