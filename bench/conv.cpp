#include <fmt/core.h>

#include <array>
#include <functional>
#include <map>

#include "bench/bare_convolution.hpp"
#include "bench/commands.hpp"
#include "bench/peak.hpp"
#include "bench/statistics.hpp"
#include "core/random.hpp"
#include "core/stopwatch.hpp"
#include "devices/registry.hpp"
#include "master/commands/options.hpp"
#include "nets/graph/net.hpp"

namespace convoy {
namespace {

struct ConvOptions {
  std::string net = "nets/cifar10-500-1500.yaml";
  std::vector<std::string> set;
  std::vector<int> shape;  ///< channels, height, width, filters, kernel [, stride [, pad]]
  std::vector<std::string> devices{"cpu"};
  std::vector<int> threads{1};
  std::vector<int> filters;
  int batch = 64;
  int repeats = 7;
  bool tf32 = false;
  bool fp16 = false;
  std::string compute = "fp32";
  std::string format = "text";
};

/// A row of the table.
struct ConvRow {
  std::string stage;
  int filters;
  std::string device;
  int threads;
  const char* pass;
  Quartiles gflops;
  double peak;  ///< GFLOP/s of the processor with as many threads; zero for an NVIDIA GPU, whose peak is not known
  /// Speed relative to the bare convolution in the layout with the best median, round by round; zero without one.
  Quartiles ratio;
};

void fill_random(DeviceTensor& tensor) {
  Random random(1, 1);
  Tensor values(tensor.shape());
  for (float& value : values.span()) value = random.uniform(-1.0F, 1.0F);
  tensor.write(values.span());
}

double seconds_of(Device& device, const std::function<void()>& work) {
  device.finish();
  const Stopwatch watch;
  work();
  device.finish();
  return watch.seconds();
}

/// A shard's convolution without other layers, whose passes can be run one by one.
class DevicePasses {
 public:
  DevicePasses(Device& device, const Stage& stage, int filters, int batch, bool first)
      : shard_(device.compile({.stage = stage, .filters = {0, filters}, .batch = batch, .input_gradient = !first})),
        input_(shard_->make_input()),
        gradient_(shard_->make_output_gradient()) {
    fill_random(*input_);
    fill_random(*gradient_);
    ShardState state = zero_state(stage, filters);
    Random random(1, 2);
    for (float& weight : state.weights().span()) weight = random.uniform(-0.1F, 0.1F);
    shard_->set_state(state);
  }
  void forward() { shard_->forward(*input_, {.training = true}); }
  void input_gradient() { shard_->backward_input(*gradient_); }
  void filter_gradient() { shard_->backward_filters(); }

 private:
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<DeviceTensor> input_;
  std::unique_ptr<DeviceTensor> gradient_;
};

struct Job {
  Stage stage;
  int filters;
  std::string device;
  int threads;
  bool first;  ///< true for the net's first stage, which has no input gradient
};

/// The measurements of one pass.
struct Samples {
  std::vector<double> ours;               ///< seconds by round
  std::vector<std::vector<double>> bare;  ///< seconds of the bare primitive, by round and layout

  /// Returns the ratios to the layout with the lowest median. Taking the fastest layout of each round would favour
  /// lucky rounds.
  Quartiles ratio() const {
    Quartiles lowest;
    for (std::size_t layout = 0; !bare.empty() && layout < bare.front().size(); ++layout) {
      std::vector<double> ratios;
      for (std::size_t round = 0; round < ours.size(); ++round) ratios.push_back(bare[round][layout] / ours[round]);
      const Quartiles found = quartiles(ratios);
      if (layout == 0 || found.median < lowest.median) lowest = found;
    }
    return lowest;
  }
};

void measure(const Job& job, const ConvOptions& options, double peak, std::vector<ConvRow>& rows) {
  const auto device = make_device(
      job.device,
      {.threads = job.threads, .tf32 = options.tf32, .fp16 = options.fp16, .bf16 = options.compute == "bf16"});
  DevicePasses ours(*device, job.stage, job.filters, options.batch, job.first);
  const auto bare = make_bare_for({.stage = job.stage,
                                   .filters = job.filters,
                                   .batch = options.batch,
                                   .device = job.device,
                                   .threads = job.threads,
                                   .tf32 = options.tf32});
  const std::array<const char*, 3> names{"forward", "input gradient", "filter gradient"};
  const std::array<std::function<void()>, 3> passes{[&] { ours.forward(); }, [&] { ours.input_gradient(); },
                                                    [&] { ours.filter_gradient(); }};
  const std::array<void (BareConvolution::*)(), 3> bare_passes{
      &BareConvolution::forward, &BareConvolution::input_gradient, &BareConvolution::filter_gradient};
  std::array<Samples, 3> samples;
  for (int round = -1; round < options.repeats; ++round) {  // the first round warms up
    for (std::size_t p = 0; p < passes.size(); ++p) {
      if (p == 1 && job.first) {
        ours.input_gradient();  // the filter gradient needs this call; the pass is not part of a first stage
        continue;
      }
      // The order alternates, so that neither program always finds the warmer cache.
      std::vector<double> others;
      if (round % 2 == 0) others = seconds_by_layout(bare, bare_passes[p]);
      const double seconds = seconds_of(*device, passes[p]);
      if (round % 2 != 0) others = seconds_by_layout(bare, bare_passes[p]);
      if (round < 0) continue;
      samples[p].ours.push_back(seconds);
      if (!others.empty()) samples[p].bare.push_back(others);
    }
  }
  const double work = conv_flops(job.stage, options.batch, job.filters) / 1e9;
  for (std::size_t p = 0; p < passes.size(); ++p) {
    if (samples[p].ours.empty()) continue;
    std::vector<double> gflops;
    for (const double seconds : samples[p].ours) gflops.push_back(work / seconds);
    rows.push_back({job.stage.name, job.filters, job.device, job.threads, names[p], quartiles(gflops),
                    is_nvidia_gpu(job.device) ? 0.0 : peak, samples[p].ratio()});
  }
}

std::vector<Stage> stages_of(const ConvOptions& options) {
  if (options.shape.empty()) {
    std::vector<Stage> stages = cut(read_net(options.net, options.set)).trunk;
    std::erase_if(stages, [](const Stage& stage) { return stage.kind != StageKind::convolution; });
    return stages;
  }
  if (options.shape.size() < 5)
    fail("--shape has too few numbers; write channels,height,width,filters,kernel[,stride[,pad]]");
  const auto at = [&](std::size_t i, int otherwise) { return i < options.shape.size() ? options.shape[i] : otherwise; };
  const int kernel = at(4, 1);
  const int stride = at(5, 1);
  const int pad = at(6, 0);
  Stage stage{.name = "conv",
              .channels = at(0, 1),
              .height = at(1, 1),
              .width = at(2, 1),
              .conv = {.filters = at(3, 1),
                       .kernel_h = kernel,
                       .kernel_w = kernel,
                       .stride_h = stride,
                       .stride_w = stride,
                       .pad = {pad, pad, pad, pad}},
              .after = {}};
  validate(stage);
  return {stage};
}

void print(const std::vector<ConvRow>& rows, const std::string& format) {
  if (format == "csv") {
    fmt::print(
        "stage,filters,device,threads,pass,gflops,gflops_low,gflops_high,peak_gflops,of_peak,ratio_to_bare,ratio_low,"
        "ratio_high\n");
    for (const ConvRow& r : rows) {
      const std::string peak = r.peak > 0.0 ? fmt::format("{:.1f},{:.3f}", r.peak, r.gflops.median / r.peak) : ",";
      fmt::print("{},{},{},{},{},{:.1f},{:.1f},{:.1f},{},{:.3f},{:.3f},{:.3f}\n", r.stage, r.filters, r.device,
                 r.threads, r.pass, r.gflops.median, r.gflops.low, r.gflops.high, peak, r.ratio.median, r.ratio.low,
                 r.ratio.high);
    }
    return;
  }
  fmt::print("{:<10}{:>8} {:<12}{:>8} {:<16}{:>9} {:>15}{:>9}  {}\n", "stage", "filters", "device", "threads", "pass",
             "GFLOP/s", "quartiles", "of peak", "to the bare library (quartiles)");
  for (const ConvRow& r : rows) {
    const std::string ratio = r.ratio.median > 0.0
                                  ? fmt::format("{:.3f} ({:.3f} to {:.3f}) of {}", r.ratio.median, r.ratio.low,
                                                r.ratio.high, is_nvidia_gpu(r.device) ? "cuDNN" : "oneDNN")
                                  : std::string("-");
    const std::string of_peak = r.peak > 0.0 ? fmt::format("{:.0f} %", 100.0 * r.gflops.median / r.peak) : "-";
    fmt::print("{:<10}{:>8} {:<12}{:>8} {:<16}{:>9.1f} {:>6.1f} - {:>6.1f}{:>9}  {}\n", r.stage, r.filters, r.device,
               r.threads, r.pass, r.gflops.median, r.gflops.low, r.gflops.high, of_peak, ratio);
  }
}

void run_conv(const ConvOptions& options) {
  const std::vector<Stage> stages = stages_of(options);
  std::vector<ConvRow> rows;
  std::map<int, double> peaks;
  for (const int threads : options.threads) peaks[threads] = measure_fma_peak(threads);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    Stage stage = stages[s];
    stage.after.clear();
    const std::vector<int> filters = options.filters.empty() ? std::vector<int>{stage.conv.filters} : options.filters;
    for (const int count : filters) {
      if (count > stage.conv.filters) continue;
      for (const std::string& device : options.devices) {
        for (const int threads : options.threads) {
          measure({stage, count, device, threads, options.shape.empty() && s == 0}, options, peaks[threads], rows);
        }
      }
    }
  }
  for (const int threads : options.threads) {
    if (options.format != "text") break;
    fmt::print("FMA peak, {} thread{}: {:.0f} GFLOP/s\n", threads, threads == 1 ? "" : "s", peaks[threads]);
  }
  print(rows, options.format);
}

}  // namespace

void add_conv(CLI::App& app) {
  auto options = std::make_shared<ConvOptions>();
  CLI::App& command = *app.add_subcommand(
      "conv",
      "GFLOP/s of each stage's convolution on each device, pass by pass (with bias, without the layers after it; work "
      "is counted by the definition, with padding, so a device that needs fewer multiplications may exceed the peak), "
      "compared with the processor's peak and with the bare convolution of oneDNN (on NVIDIA "
      "GPUs, of cuDNN by its fastest algorithm) in its fastest layout");
  command.add_option("--net", options->net, "net file whose stages are measured")->capture_default_str();
  add_set_option(command, options->set);
  command
      .add_option("--shape", options->shape,
                  "measure one convolution instead of a net's: channels,height,width,filters,kernel[,stride[,pad]]")
      ->delimiter(',');
  command.add_option("--devices", options->devices, "devices, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--threads", options->threads, "numbers of threads, separated by commas")
      ->delimiter(',')
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command
      .add_option("--filters", options->filters,
                  "numbers of filters, separated by commas (default: all filters of the stage)")
      ->delimiter(',')
      ->check(whole_number(1, 1 << 20));
  command.add_option("--batch", options->batch, "images")->check(whole_number(1, 65536))->capture_default_str();
  command.add_option("--repeats", options->repeats, "rounds")->check(whole_number(1, 1000))->capture_default_str();
  command.add_flag("--tf32", options->tf32, "let NVIDIA GPUs round factors to 10 bits");
  command.add_flag("--fp16", options->fp16, "keep inputs and weights of OpenCL's convolutions in 16 bits");
  command.add_option("--compute", options->compute, "precision of the cpu device: fp32 or bf16")
      ->check(one_of({"fp32", "bf16"}))
      ->capture_default_str();
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_conv(*options); });
}

}  // namespace convoy
