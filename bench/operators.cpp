#include <fmt/core.h>

#include <map>
#include <optional>

#include "bench/commands.hpp"
#include "bench/statistics.hpp"
#include "core/random.hpp"
#include "core/stopwatch.hpp"
#include "core/thread_team.hpp"
#include "devices/registry.hpp"
#include "model/device_dense.hpp"
#include "nets/graph/net.hpp"
#include "train/local_trunk.hpp"

namespace convoy {
namespace {

struct OperatorsOptions {
  std::vector<std::string> nets{"nets/big-mlp.yaml", "nets/lenet.yaml"};
  std::vector<std::string> devices;
  int batch = 64;
  int repeats = 5;
  std::string format = "text";
};

/// Returns all layers of a net except its loss, as a chain of stages.
std::vector<Stage> stages_of(const Net& net) {
  const Cut parts = cut(net);
  std::vector<Stage> stages = parts.trunk;
  Shape maps{1, parts.heads.back().maps.channels, parts.heads.back().maps.height, parts.heads.back().maps.width};
  for (const Layer& layer : parts.heads.back().layers) {
    if (const auto* dense = std::get_if<Dense>(&layer.spec)) {
      stages.push_back(dense_stage(layer.name, maps, dense->units));
      maps = output_shape(stages.back(), 1, dense->units);
      continue;
    }
    if (stages.empty() && !std::holds_alternative<Flatten>(layer.spec)) {
      fail("{}: layer {}: this benchmark supports nets that begin with a convolution or a dense layer", net.file,
           layer.name);
    }
    if (const auto* activation = std::get_if<Activation>(&layer.spec)) {
      stages.back().after.emplace_back(*activation);
    } else if (const auto* dropout = std::get_if<Dropout>(&layer.spec)) {
      stages.back().after.emplace_back(*dropout);
    }
  }
  return stages;
}

/// A device with the net compiled for it.
struct Candidate {
  std::string label;
  std::unique_ptr<Device> device;
  std::unique_ptr<LocalTrunk> trunk;
  std::vector<double> seconds;

  double images_per_second(int batch) const { return batch / quartiles(seconds).median; }
};

std::string label_of(const std::string& name, const Device& device) {
  if (name.starts_with("cpu") || name.starts_with("eigen")) {
    return fmt::format("{}, {} thread{}", name, device.info().threads, device.info().threads == 1 ? "" : "s");
  }
  return name;
}

/// Returns the devices to compare: the requested ones, or by default the reference device, the processor with one and
/// with all threads, and every other usable device. Unusable devices are reported on stderr.
std::vector<Candidate> candidates(const OperatorsOptions& options) {
  std::vector<std::pair<std::string, int>> wanted;
  for (const std::string& name : options.devices) wanted.emplace_back(name, 0);
  if (wanted.empty()) {
    wanted = {{"reference", 1}, {"cpu", 1}};
    if (hardware_threads() > 1) wanted.emplace_back("cpu", 0);
    for (const DeviceRow& row : list_devices()) {
      if (!row.unusable.empty()) fmt::print(stderr, "device {} is skipped: {}\n", row.name, row.unusable);
      if (row.unusable.empty() && row.name.find(':') != std::string::npos) wanted.emplace_back(row.name, 0);
    }
  }
  std::vector<Candidate> found;
  for (const auto& [name, threads] : wanted) {
    auto device = make_device(name, {.threads = threads});
    const std::string label = label_of(name, *device);
    found.push_back({.label = label, .device = std::move(device), .trunk = nullptr, .seconds = {}});
  }
  return found;
}

std::vector<ShardState> random_states(const std::vector<Stage>& stages) {
  std::vector<ShardState> states;
  Random random(1, 2);
  for (const Stage& stage : stages) {
    states.push_back(zero_state(stage, stage.conv.filters));
    if (stage.kind != StageKind::convolution) continue;
    for (float& weight : states.back().weights().span()) weight = random.uniform(-0.05F, 0.05F);
  }
  return states;
}

void measure(const Net& net, const OperatorsOptions& options, std::vector<Candidate>& all) {
  const std::vector<Stage> stages = stages_of(net);
  const Shape input{options.batch, net.input.channels, net.input.height, net.input.width};
  const Images images = noise_images(input, 1, 1);
  const Tensor gradient(output_shape(stages.back(), options.batch, stages.back().conv.filters), 1e-3F);
  for (Candidate& candidate : all) {
    candidate.trunk = std::make_unique<LocalTrunk>(stages, input, *candidate.device);
    candidate.trunk->load(random_states(stages));
    candidate.seconds.clear();
  }
  for (int round = -1; round < options.repeats; ++round) {  // the first round warms up
    for (Candidate& candidate : all) {
      const Stopwatch watch;
      candidate.trunk->forward(images, {.training = true, .seed = 1});
      candidate.trunk->backward(gradient);
      candidate.trunk->update({.learning_rate = 1e-6F, .momentum = 0.9F});
      candidate.device->finish();
      if (round >= 0) candidate.seconds.push_back(watch.seconds());
    }
  }
  for (Candidate& candidate : all) candidate.trunk.reset();
}

void print(const std::string& net, const OperatorsOptions& options, const std::vector<Candidate>& all) {
  const bool csv = options.format == "csv";
  if (!csv) {
    fmt::print("{}, batch {}: forward, backward and update of all layers\n", net, options.batch);
    fmt::print("  {:<22}{:>12} {:>22}", "", "images/s", "quartiles");
    for (const Candidate& other : all) fmt::print("{:>18}", "/ " + other.label);
    fmt::print("\n");
  }
  for (const Candidate& candidate : all) {
    const Quartiles seconds = quartiles(candidate.seconds);
    const double rate = options.batch / seconds.median;
    const double low = options.batch / seconds.high;
    const double high = options.batch / seconds.low;
    if (csv) {
      fmt::print("{},{},\"{}\",{:.2f},{:.2f},{:.2f}", net, options.batch, candidate.label, rate, low, high);
    } else {
      fmt::print("  {:<22}{:>12.1f} {:>10.1f} - {:>9.1f}", candidate.label, rate, low, high);
    }
    for (const Candidate& other : all) {
      const double speedup = rate / other.images_per_second(options.batch);
      fmt::print("{}", csv ? fmt::format(",{:.3f}", speedup) : fmt::format("{:>18.3g}", speedup));
    }
    fmt::print("\n");
  }
}

void run_operators(const OperatorsOptions& options) {
  std::vector<Net> nets;
  for (const std::string& file : options.nets) nets.push_back(read_net(file));
  std::vector<Candidate> all = candidates(options);
  if (options.format == "csv") {
    fmt::print("net,batch,device,images_s,low,high");
    for (const Candidate& other : all) fmt::print(",\"speedup over {}\"", other.label);
    fmt::print("\n");
  }
  for (const Net& net : nets) {
    measure(net, options, all);
    print(net.name, options, all);
  }
}

}  // namespace

void add_operators(CLI::App& app) {
  auto options = std::make_shared<OperatorsOptions>();
  CLI::App& command = *app.add_subcommand("operators",
                                          "a dense and a convolutional net computed by each device (plain loops, the "
                                          "vectorised processor, OpenCL, CUDA), with the speedup of every device over "
                                          "every other");
  command.add_option("--nets", options->nets, "net files, separated by commas")->delimiter(',')->capture_default_str();
  command.add_option("--devices", options->devices, "devices, separated by commas (default: all usable ones)")
      ->delimiter(',');
  command.add_option("--batch", options->batch, "images")->check(whole_number(1, 65536))->capture_default_str();
  command.add_option("--repeats", options->repeats, "rounds")->check(whole_number(1, 10000))->capture_default_str();
  command.add_option("--format", options->format, "text or csv")->check(one_of({"text", "csv"}))->capture_default_str();
  command.callback([options] { run_operators(*options); });
}

}  // namespace convoy
