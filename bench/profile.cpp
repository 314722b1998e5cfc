// Time and memory of a training step on this machine: a table by layer and pass, and a trace for the viewer of Chrome
// (chrome://tracing) or Perfetto.

#include <fmt/core.h>
#include <sys/resource.h>

#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/commands.hpp"
#include "bench/statistics.hpp"
#include "core/random.hpp"
#include "core/stopwatch.hpp"
#include "devices/registry.hpp"
#include "kernels/host/matmul.hpp"
#include "master/cluster/head_place.hpp"
#include "master/commands/options.hpp"
#include "plan/profile.hpp"
#include "train/local_trunk.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

struct ProfileOptions {
  std::string net = "nets/cifar10-50-500.yaml";
  std::vector<std::string> set;
  std::string device = "cpu";
  int threads = 0;
  int batch = 0;
  int repeats = 5;
  std::string trace;
  std::string format = "text";
};

/// Passes in the order of the table's columns.
constexpr std::array<const char*, 4> kPasses{"forward", "input gradient", "weight gradient", "update"};

struct Event {
  std::string what;  ///< the stage, or a part of the master's work
  int pass = -1;     ///< index into kPasses; -1: not a pass
  double start = 0.0;
  double seconds = 0.0;
};

/// Events with their times, in seconds since construction.
class Timeline {
 public:
  void time(Device& device, const std::string& what, int pass, const std::function<void()>& work) {
    const double start = since_.seconds();
    work();
    device.finish();
    events.push_back({what, pass, start, since_.seconds() - start});
  }

  std::vector<Event> events;

 private:
  Stopwatch since_;
};

/// A shard of another device with timed passes.
class TimedShard : public Shard {
 public:
  TimedShard(std::unique_ptr<Shard> shard, Device& device, Timeline& timeline)
      : shard_(std::move(shard)), device_(device), timeline_(timeline) {}

  const ShardSpec& spec() const override { return shard_->spec(); }
  std::unique_ptr<DeviceTensor> make_input() const override { return shard_->make_input(); }
  std::unique_ptr<DeviceTensor> make_output_gradient() const override { return shard_->make_output_gradient(); }
  std::unique_ptr<DeviceTensor> make_added(std::size_t index) const override { return shard_->make_added(index); }
  void connect(std::size_t index, const DeviceTensor& maps) override { shard_->connect(index, maps); }
  const DeviceTensor& added_gradient(std::size_t index) const override { return shard_->added_gradient(index); }
  const DeviceTensor& forward(const DeviceTensor& input, const Pass& pass, SampleRange samples) override {
    const DeviceTensor* maps = nullptr;
    time(0, [&] { maps = &shard_->forward(input, pass, samples); });
    return *maps;
  }
  const DeviceTensor* backward_input(const DeviceTensor& output_gradient, SampleRange samples) override {
    const DeviceTensor* part = nullptr;
    time(1, [&] { part = shard_->backward_input(output_gradient, samples); });
    return part;
  }
  std::vector<float> moments() override {
    std::vector<float> moments;
    time(0, [&] { moments = shard_->moments(); });
    return moments;
  }
  const DeviceTensor& normalise(std::span<const double> joint) override {
    const DeviceTensor* maps = nullptr;
    time(0, [&] { maps = &shard_->normalise(joint); });
    return *maps;
  }
  std::vector<float> slopes(const DeviceTensor& output_gradient) override {
    std::vector<float> slopes;
    time(1, [&] { slopes = shard_->slopes(output_gradient); });
    return slopes;
  }
  void take_slopes(std::span<const double> joint) override {
    time(1, [&] { shard_->take_slopes(joint); });
  }
  void backward_filters() override {
    time(2, [&] { shard_->backward_filters(); });
  }
  void update(const UpdateStep& step) override {
    time(3, [&] { shard_->update(step); });
  }
  bool finite() const override { return shard_->finite(); }
  ShardState state() const override { return shard_->state(); }
  void set_state(const ShardState& state) override { shard_->set_state(state); }
  std::vector<Tensor> gradients() const override { return shard_->gradients(); }
  void set_gradients(const std::vector<Tensor>& gradients) override { shard_->set_gradients(gradients); }

 private:
  void time(int pass, const std::function<void()>& work) {
    timeline_.time(device_, shard_->spec().stage.name, pass, work);
  }

  std::unique_ptr<Shard> shard_;
  Device& device_;
  Timeline& timeline_;
};

class TimedDevice : public Device {
 public:
  TimedDevice(Device& device, Timeline& timeline) : device_(device), timeline_(timeline) {}
  const DeviceInfo& info() const override { return device_.info(); }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    return std::make_unique<TimedShard>(device_.compile(spec), device_, timeline_);
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override { return device_.make_tensor(shape); }
  void finish() override { device_.finish(); }

 private:
  Device& device_;
  Timeline& timeline_;
};

constexpr double kMiB = 1024.0 * 1024.0;

struct StageRow {
  std::string stage;
  std::array<double, 4> seconds{};
  double weights = 0.0;  ///< MiB, with gradients and moments
  double maps = 0.0;     ///< MiB, with gradients, including the input's
  double total() const { return seconds[0] + seconds[1] + seconds[2] + seconds[3]; }
};

/// Returns the medians over the steps of each stage's passes.
std::vector<StageRow> rows_of(const std::vector<Stage>& trunk, int batch, const std::vector<Event>& events) {
  std::map<std::pair<std::string, int>, std::vector<double>> times;
  for (const Event& event : events) times[{event.what, event.pass}].push_back(event.seconds);
  std::vector<StageRow> rows;
  for (const Stage& stage : trunk) {
    StageRow row{.stage = stage.name};
    for (int pass = 0; pass < 4; ++pass) {
      const auto found = times.find({stage.name, pass});
      if (found != times.end()) row.seconds[pass] = quartiles(found->second).median;
    }
    for (const ParameterSpec& parameter : parameters_of(stage, stage.conv.filters)) {
      row.weights += static_cast<double>(parameter.shape.size() * sizeof(float)) * (2 + stage.moments) / kMiB;
    }
    const auto all = static_cast<double>(shard_bytes(stage, stage.conv.filters, batch, &stage != &trunk[0])) / kMiB;
    const double counted = 4.0 * sizeof(float) *
                           static_cast<double>(weight_shape(stage, stage.conv.filters).size() +
                                               static_cast<std::size_t>(stage.conv.filters)) /
                           kMiB;
    row.maps = all - counted;
    rows.push_back(row);
  }
  return rows;
}

void print_rows(const std::vector<StageRow>& rows, double step, double head, const std::string& format) {
  const bool csv = format == "csv";
  if (csv) {
    fmt::print("stage,forward_s,input_gradient_s,weight_gradient_s,update_s,weights_mib,maps_mib\n");
  } else {
    fmt::print("{:<24}{:>9}{:>10}{:>10}{:>9}{:>9}{:>7}{:>10}{:>9}\n", "ms", "forward", "input", "weights", "update",
               "all", "%", "weights", "maps MiB");
  }
  StageRow sum{.stage = "all stages"};
  for (const StageRow& row : rows) {
    for (std::size_t p = 0; p < 4; ++p) sum.seconds[p] += row.seconds[p];
    sum.weights += row.weights;
    sum.maps += row.maps;
  }
  const auto print = [&](const StageRow& row) {
    const auto& s = row.seconds;
    if (csv) {
      fmt::print("{},{:.6f},{:.6f},{:.6f},{:.6f},{:.3f},{:.3f}\n", row.stage, s[0], s[1], s[2], s[3], row.weights,
                 row.maps);
    } else {
      fmt::print("{:<24}{:>9.3f}{:>10.3f}{:>10.3f}{:>9.3f}{:>9.3f}{:>7.1f}{:>10.2f}{:>9.1f}\n", row.stage.substr(0, 23),
                 1e3 * s[0], 1e3 * s[1], 1e3 * s[2], 1e3 * s[3], 1e3 * row.total(), 100.0 * row.total() / step,
                 row.weights, row.maps);
    }
  };
  for (const StageRow& row : rows) print(row);
  print(sum);
  if (csv) return;
  fmt::print("{:<62}{:>9.3f}{:>7.1f}\n", "heads", 1e3 * head, 100.0 * head / step);
  const double rest = step - sum.total() - head;
  fmt::print("{:<62}{:>9.3f}{:>7.1f}\n", "between: copying images, joining maps, adding gradients", 1e3 * rest,
             100.0 * rest / step);
  fmt::print("{:<62}{:>9.3f}\n", "step", 1e3 * step);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory of the process: {:.0f} MiB\n", static_cast<double>(usage.ru_maxrss) / 1024.0);
}

void write_trace(const std::string& file, const std::vector<Event>& events) {
  auto list = nlohmann::json::array();
  for (const Event& event : events) {
    const std::string pass = event.pass < 0 ? "" : kPasses.at(event.pass);
    list.push_back({{"name", pass.empty() ? event.what : event.what + " " + pass},
                    {"cat", pass.empty() ? "step" : pass},
                    {"ph", "X"},
                    {"ts", 1e6 * event.start},
                    {"dur", 1e6 * event.seconds},
                    {"pid", 1},
                    {"tid", pass.empty() ? 1 : 2}});
  }
  std::ofstream stream(file);
  stream << nlohmann::json{{"traceEvents", list}, {"displayTimeUnit", "ms"}}.dump() << std::flush;
  if (!stream) fail("{}: cannot be written; check that the folder is writable and the disk is not full", file);
}

void run_profile(const ProfileOptions& options) {
  Overrides set = options.set;
  if (options.batch > 0) set.push_back(fmt::format("training.batch={}", options.batch));
  const Net net = read_net(options.net, set);
  const int batch = net.training.batch;
  const Cut parts = cut(net);
  const auto device = make_device(options.device, {.threads = options.threads});
  Timeline timeline;
  TimedDevice timed(*device, timeline);
  const Images images = noise_images({batch, net.input.channels, net.input.height, net.input.width}, 1, 2);
  LocalTrunk trunk(parts.trunk, images.shape(), timed);
  NetOptions place;
  place.device_options.threads = device->info().threads;
  Heads heads(parts, batch, place_of_heads(place, parts, batch, *device));
  trunk.load(initial_trunk(parts, 1));
  heads.load(initial_heads(parts, 1));
  Random random(1, 1);
  std::vector<int> labels;
  for (int i = 0; i < batch; ++i) {
    labels.push_back(static_cast<int>(random.below(static_cast<std::uint32_t>(net.classes))));
  }
  const Pass pass{.training = true, .seed = 1};
  const UpdateStep update{.learning_rate = 1e-4F, .momentum = 0.9F};
  std::vector<double> steps;
  std::vector<double> head_times;
  for (int round = -1; round < options.repeats; ++round) {
    if (round == 0) timeline.events.clear();  // the first step compiles kernels and fills caches
    const Stopwatch watch;
    timeline.time(*device, "step", -1, [&] {
      trunk.forward(images, pass);
      std::vector<const Tensor*> gradients;
      timeline.time(*device, "heads", -1, [&] {
        heads.forward(trunk.outputs(), pass);
        heads.loss(labels, batch);
        gradients = heads.backward({0, batch});
      });
      trunk.backward(gradients);
      trunk.update(update);
      timeline.time(*device, "heads' update", -1, [&] {
        heads.backward_weights();
        heads.update(update);
      });
    });
    if (round >= 0) steps.push_back(watch.seconds());
  }
  double head = 0.0;
  for (const Event& event : timeline.events) head += event.what.starts_with("heads") ? event.seconds : 0.0;
  head /= options.repeats;
  if (options.format == "text") {
    fmt::print("{}, batch {}, {} ({}): medians of {} steps\n", net.name, batch, options.device,
               device->info().description, options.repeats);
  }
  print_rows(rows_of(parts.trunk, batch, timeline.events), quartiles(steps).median, head, options.format);
  if (!options.trace.empty()) write_trace(options.trace, timeline.events);
}

}  // namespace

void add_profile(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* command =
      app.add_subcommand("profile", "time and memory of a training step on this machine, by layer and pass");
  command->add_option("--net", options->net, "net file")->capture_default_str();
  add_set_option(*command, options->set);
  command->add_option("--device", options->device, "device, as listed by convoy-slave --list-devices")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "threads of a processor (0: all cores)")
      ->check(whole_number(0, 1024));
  command->add_option("--batch", options->batch, "images a step (default: the net file's)")
      ->check(whole_number(1, 65536));
  command->add_option("--repeats", options->repeats, "steps")->check(whole_number(1, 1000))->capture_default_str();
  command->add_option("--trace", options->trace, "file for chrome://tracing or ui.perfetto.dev");
  command->add_option("--format", options->format, "text or csv")
      ->check(one_of({"text", "csv"}))
      ->capture_default_str();
  command->callback([options] { run_profile(*options); });
}

}  // namespace convoy
