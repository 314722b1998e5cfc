#include "plan/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/shard_state.hpp"

namespace convoy {
namespace {

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

double interpolate(const Timing& a, const Timing& b, int filters) {
  const double slope = (b.seconds() - a.seconds()) / static_cast<double>(b.filters - a.filters);
  return a.seconds() + slope * static_cast<double>(filters - a.filters);
}

}  // namespace

std::string fault_in(const Power& power) {
  constexpr double kMost = 1e6;
  for (const double watts : {power.idle, power.compute, power.transfer}) {
    if (!(watts >= 0.0 && watts <= kMost)) return fmt::format("{:g} W is not a power from 0 to {:g} W", watts, kMost);
  }
  if (!(power.compute > 0.0)) return "computing takes 0 W, but must take more";
  if (power.compute < power.idle)
    return fmt::format("computing takes {:g} W, less than the {:g} W of idling", power.compute, power.idle);
  if (power.transfer < power.idle)
    return fmt::format("moving data takes {:g} W, less than the {:g} W of idling", power.transfer, power.idle);
  return "";
}

Timing Timing::times(double factor) const {
  Timing timing = *this;
  for (double Timing::*seconds : {&Timing::forward, &Timing::backward_input, &Timing::backward_filters, &Timing::update,
                                  &Timing::forward_call, &Timing::input_call}) {
    timing.*seconds *= factor;
  }
  return timing;
}

Timing Timing::for_samples(double share) const {
  Timing timing = *this;
  timing.forward = forward_call + share * (forward - forward_call);
  timing.backward_input = input_call + share * (backward_input - input_call);
  timing.backward_filters = share * backward_filters;
  return timing;
}

Timing Timing::in_parts(int micro_batches) const {
  Timing timing = *this;
  timing.forward += (micro_batches - 1) * forward_call;
  timing.backward_input += (micro_batches - 1) * input_call;
  return timing;
}

Timing timing_at(double gflops, double memory, const Stage& stage, int filters, int batch, bool input_gradient) {
  const double values = 2.0 * static_cast<double>(output_shape(stage, batch, filters).size());
  const double pass = stage.kind == StageKind::convolution ? conv_flops(stage, batch, filters) / (1e9 * gflops)
                                                           : values * sizeof(float) / memory;
  return {.filters = filters,
          .forward = pass,
          .backward_input = input_gradient ? pass : 0.0,
          .backward_filters = has_trained_parameters(stage) || !has_parameters(stage) ? pass : 0.0};
}

double predict_seconds(const MemberProfile& member, std::size_t stage, int filters) {
  if (filters <= 0) return 0.0;
  const std::vector<Timing>& timings = member.stages[stage];
  if (timings.empty()) return std::numeric_limits<double>::infinity();
  const int rounded = round_up(filters, std::max(1, member.filter_block));
  const auto next = std::find_if(timings.begin(), timings.end(), [&](const Timing& t) { return t.filters >= rounded; });
  if (timings.size() == 1) return timings[0].seconds() * rounded / timings[0].filters;
  if (next == timings.begin()) {
    const double line = interpolate(timings[0], timings[1], rounded);
    // Rounded, the proportion may exceed the timing, which std::clamp does not allow.
    return std::min(std::max(line, timings[0].seconds() * rounded / timings[0].filters), timings[0].seconds());
  }
  if (next == timings.end()) {
    return std::max(interpolate(timings[timings.size() - 2], timings.back(), rounded), timings.back().seconds());
  }
  return interpolate(*(next - 1), *next, rounded);
}

Timing predict_passes(const MemberProfile& member, std::size_t stage, int filters) {
  const std::vector<Timing>& timings = member.stages[stage];
  if (filters <= 0 || timings.empty()) return {};
  auto next = std::find_if(timings.begin(), timings.end(), [&](const Timing& t) { return t.filters >= filters; });
  if (next == timings.end()) --next;
  if (!(next->seconds() > 0.0)) return {filters};
  const double factor = predict_seconds(member, stage, filters) / next->seconds();
  Timing timing = next->times(factor);
  timing.filters = filters;
  return timing;
}

std::size_t shard_bytes(const Stage& stage, int filters, int batch, bool input_gradient, int filter_block) {
  if (filters <= 0) return 0;
  filters = round_up(filters, std::max(1, filter_block));
  const std::size_t input = input_shape(stage, batch).size();
  std::size_t floats = input * (input_gradient ? 2 : 1);
  floats += 4 * (weight_shape(stage, filters).size() + static_cast<std::size_t>(filters));
  Shape maps = conv_shape(stage, batch, filters);
  floats += 2 * maps.size();
  for (const ChannelLayer& layer : stage.after) {
    if (const auto* pool = std::get_if<Pooling>(&layer)) maps = pooled_shape(*pool, maps);
    floats += 2 * maps.size();
  }
  return floats * sizeof(float);
}

}  // namespace convoy
