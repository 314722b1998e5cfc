#include "devices/known_times.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <utility>
#include <variant>

#include "core/clock.hpp"

namespace convoy {
namespace {

/// Two probes of one device differ by less where little else computes.
constexpr double kAsBefore = 1.15;
/// Other programs that compute for a moment slow one probe down, and rarely all of them.
constexpr int kMostProbes = 4;

/// Returns the program's file by size and time: another build may compute faster.
std::string describe_program() {
  std::error_code ignored;
  const std::filesystem::path program = "/proc/self/exe";
  const auto size = std::filesystem::file_size(program, ignored);
  const auto time = std::filesystem::last_write_time(program, ignored).time_since_epoch().count();
  return fmt::format("{} bytes of {}", size, time);
}

/// Folders of users may be shared by machines, so the machine has a name.
std::string describe_machine() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string to_text(double speed, const KnownTimes::Seconds& seconds) {
  return fmt::format("{} {}", speed, fmt::join(seconds, " "));
}

/// Returns the seconds of a text of to_text() that was written at about this speed; nothing where it was not, or the
/// text is damaged.
std::optional<KnownTimes::Seconds> seconds_at(double speed, std::size_t parts, const std::string& text) {
  std::istringstream words(text);
  double before = 0.0;
  words >> before;
  if (!(before < speed * kAsBefore && speed < before * kAsBefore)) return std::nullopt;
  KnownTimes::Seconds seconds;
  for (double value = 0.0; words >> value;) seconds.push_back(value);
  const auto possible = [](double value) { return std::isfinite(value) && value >= 0.0; };
  const bool sound = words.eof() && seconds.size() == parts && std::ranges::all_of(seconds, possible);
  return sound ? std::optional(std::move(seconds)) : std::nullopt;
}

// The structured bindings below name every field, so that a new one does not compile until it is described.

std::string describe(const Padding& padding) {
  const auto& [top, left, bottom, right] = padding;
  return fmt::format("{},{},{},{}", top, left, bottom, right);
}

std::string describe(const Activation& layer) {
  const auto& [kind, alpha, beta] = layer;
  return fmt::format("activation {} {} {}", static_cast<int>(kind), alpha, beta);
}

std::string describe(const Pooling& layer) {
  const auto& [kind, kernel_h, kernel_w, stride_h, stride_w, pad, dilation_h, dilation_w] = layer;
  return fmt::format("pooling {} {}x{} by {}x{} in {}{}", static_cast<int>(kind), kernel_h, kernel_w, stride_h,
                     stride_w, describe(pad),
                     layer.dilated() ? fmt::format(" dilated {}x{}", dilation_h, dilation_w) : "");
}

std::string describe(const Dropout& layer) {
  [[maybe_unused]] const auto& [rate, stream, spatial] = layer;
  return fmt::format("{}dropout {}", spatial ? "spatial " : "", rate);
}

std::string describe(const BatchNorm& layer) {
  [[maybe_unused]] const auto& [name, epsilon, momentum, rate] = layer;
  return layer.frozen() ? "frozen batch norm" : "batch norm";
}

std::string describe(const Add& layer) {
  [[maybe_unused]] const auto& [from] = layer;
  return "add";
}

std::string describe(const Multiply& layer) {
  [[maybe_unused]] const auto& [from, by_points] = layer;
  return by_points ? "multiply by points" : "multiply";
}

std::string describe(const Convolution& conv) {
  const auto& [filters, kernel_h, kernel_w, stride_h, stride_w, pad, bias, groups, rate, dilation_h, dilation_w] = conv;
  const std::string dilated = conv.dilated() ? fmt::format(", dilated {}x{}", dilation_h, dilation_w) : "";
  return fmt::format("{} filters {}x{} by {}x{} in {}, bias {}, {} groups{}{}", filters, kernel_h, kernel_w, stride_h,
                     stride_w, describe(pad), bias, groups, dilated, rate == 0.0F ? ", frozen" : "");
}

std::string describe(const ResponseNorm& norm) {
  [[maybe_unused]] const auto& [size, alpha, beta, k] = norm;
  return fmt::format("norm of {} to the power of {}", size, beta);
}

std::string describe(const GroupNorm& norm) {
  [[maybe_unused]] const auto& [groups, epsilon, by_position] = norm;
  return fmt::format("{} groups normalised{}", groups, by_position ? " by position" : "");
}

std::string describe(const Resizing::Axis& axis) {
  const auto& [extent, step, start] = axis;
  return fmt::format("{} by {} from {}", extent, step, start);
}

std::string describe(const Resizing& by) {
  const auto& [mode, rows, columns] = by;
  return fmt::format("resized in mode {} to {}, {}", static_cast<int>(mode), describe(rows), describe(columns));
}

}  // namespace

std::string describe_work(const Stage& stage) {
  [[maybe_unused]] const auto& [name, channels, height, width, conv, after, moments, kind, norm, from, shuffle,
                                group_norm, resizing] = stage;
  std::string text = fmt::format("{}x{}x{}, kind {}, {}, {}, {} moments", channels, height, width,
                                 static_cast<int>(kind), describe(conv), describe(norm), moments);
  if (kind == StageKind::group_norm) text += "; " + describe(group_norm);
  if (kind == StageKind::resize) text += "; " + describe(resizing);
  for (const ChannelLayer& layer : after)
    text += "; " + std::visit([](const auto& each) { return describe(each); }, layer);
  return text;
}

KnownTimes::KnownTimes(std::string device, std::filesystem::path folder, std::function<double()> speed)
    : device_(std::move(device)), keeps_(!folder.empty()), cache_(std::move(folder)), probe_(std::move(speed)) {}

KnownTimes::Seconds KnownTimes::of(const std::string& work, std::size_t parts,
                                   const std::function<Seconds()>& measure) {
  if (!keeps_) return measure();
  if (probes_ == 0) probe();
  const std::string key = device_ + "\n" + work + "\n";
  if (const auto text = cache_.recall(key)) {
    for (;;) {
      if (auto seconds = seconds_at(speed_, parts, *text)) return *seconds;
      if (probes_ == kMostProbes) break;
      probe();
    }
  }
  Seconds seconds = measure();
  cache_.remember(key, to_text(speed_, seconds));
  return seconds;
}

void KnownTimes::probe() {
  speed_ = std::max(speed_, probe_());
  ++probes_;
}

KnownTimes known_times(Device& device, const std::filesystem::path& folder) {
  const DeviceInfo& info = device.info();
  const bool measured = Clock::is_real() && !info.paced;
  return {fmt::format("{} on {}, {} threads, program {}: {}", info.name, describe_machine(), info.threads,
                      describe_program(), info.description),
          measured ? folder : std::filesystem::path(), [&device] { return measure_speed(device); }};
}

Timing time_shard(KnownTimes& known, Device& device, const ShardSpec& spec, int repeats) {
  const std::string work = fmt::format("{} of filters, {} images, gradient {}, {} rounds, {}", spec.filters.count,
                                       spec.batch, spec.input_gradient, repeats, describe_work(spec.stage));
  const auto measure = [&] {
    const Timing timing = time_shard(device, spec, repeats);
    return KnownTimes::Seconds{timing.forward, timing.backward_input, timing.backward_filters, timing.update};
  };
  const KnownTimes::Seconds seconds = known.of(work, 4, measure);
  return {.filters = spec.filters.count,
          .forward = seconds[0],
          .backward_input = seconds[1],
          .backward_filters = seconds[2],
          .update = seconds[3]};
}

}  // namespace convoy
