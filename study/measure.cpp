#include "study/measure.hpp"

#include <algorithm>
#include <cmath>

namespace convoy::study {
namespace {

using energy::kLeastRefreshes;
using energy::Measurement;
using energy::Record;

/// A busy machine may lack readings now and then; a meter that refuses so often tells nothing.
constexpr int kMostRefusals = 3;
/// How often the readings of a trial are counted, in s.
constexpr double kBetweenLooks = 0.1;
/// How long a trial waits for the reading after its end, in s and in refreshes.
constexpr double kLongestWait = 3;
constexpr double kWaitedRefreshes = 3;
/// A meter without any new value for so many times the least length of a trial is given up.
constexpr double kSilentTrials = 3;

double seconds_since(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

/// Work that was done again and again, and what the meter says about it.
struct Span {
  int steps = 0;
  double seconds = 0;
  Measurement measured;
  bool stopped = false;
};

Measurement measured_between(const Look& look, Clock::time_point from, Clock::time_point to) {
  Measurement measured;
  look([&](const Record& record) { measured = record.between(from, to); });
  return measured;
}

/// Whether a span has lasted long enough, or can get no better.
bool long_enough(const Look& look, const Rules& rules, Clock::time_point from, Clock::time_point deadline) {
  const double seconds = seconds_since(from);
  if (seconds < rules.trial_seconds) return false;
  if (!look || Clock::now() >= deadline) return true;
  const Measurement measured = measured_between(look, from, Clock::now());
  if (measured.changes == 0) return seconds >= kSilentTrials * rules.trial_seconds;
  return measured.changes >= kLeastRefreshes;
}

/// Goes on with the work until the meter has a reading from after `to`, so that sensors that average see no pause.
void await_reading(const std::function<void()>& step, const Look& look, Clock::time_point to) {
  bool covered = false;
  double longest = kLongestWait;
  const auto check = [&] {
    look([&](const Record& record) {
      covered = record.covers(to);
      longest = std::max(kLongestWait, kWaitedRefreshes * record.refresh());
    });
  };
  for (check(); !covered && seconds_since(to) < longest; check()) step();
}

Span run_span(const std::function<void()>& step, const Look& look, const Rules& rules, Clock::time_point deadline,
              const std::atomic<bool>& stop) {
  Span span;
  const Clock::time_point from = Clock::now();
  if (look) look([&](Record& record) { record.keep(from); });
  Clock::time_point looked = from;
  do {
    step();
    ++span.steps;
    if (stop) {
      span.stopped = true;
      return span;
    }
    if (seconds_since(looked) < kBetweenLooks) continue;
    looked = Clock::now();
    if (long_enough(look, rules, from, deadline)) break;
  } while (true);
  const Clock::time_point to = Clock::now();
  span.seconds = std::chrono::duration<double>(to - from).count();
  if (!look) return span;
  await_reading(step, look, to);
  span.measured = measured_between(look, from, to);
  return span;
}

std::vector<double> per_image(const std::vector<Trial>& trials, double (*value)(const Trial&)) {
  std::vector<double> values;
  for (const Trial& trial : trials) values.push_back(value(trial) / trial.images);
  return values;
}

std::vector<Trial> measured_trials(const std::vector<Trial>& trials) {
  std::vector<Trial> measured;
  std::ranges::copy_if(trials, std::back_inserter(measured),
                       [](const Trial& trial) { return trial.joules.has_value(); });
  return measured;
}

/// The mean of what the trials need for an image, in s or in J; nothing for fewer than two trials.
std::optional<Estimate> image_seconds_of(const std::vector<Trial>& trials) {
  if (trials.size() < 2) return std::nullopt;
  return mean_of(per_image(trials, [](const Trial& trial) { return trial.seconds; }), {});
}

std::optional<Estimate> image_joules_of(const std::vector<Trial>& trials) {
  const std::vector<Trial> measured = measured_trials(trials);
  if (measured.size() < 2) return std::nullopt;
  return mean_of(per_image(measured, [](const Trial& trial) { return trial.joules->value; }),
                 per_image(measured, [](const Trial& trial) { return trial.joules->error; }));
}

bool narrow(const std::optional<Estimate>& estimate, double interval) {
  return estimate && estimate->error <= interval * std::abs(estimate->value);
}

void assume(Result& result, double watts) {
  result.assumed = true;
  for (Trial& trial : result.trials) trial.joules = energy::Joules{watts * trial.seconds, 0};
}

/// Fills in the means of the trials, and why there are none.
void conclude(Result& result, bool measurable, const Rules& rules) {
  if (!measurable) {
    for (Trial& trial : result.trials) trial.joules.reset();
  }
  result.image_seconds = image_seconds_of(result.trials);
  result.image_joules = image_joules_of(result.trials);
  if (result.image_joules) {
    result.refusal.clear();
    return;
  }
  if (result.refusal.empty()) {
    result.refusal = result.ending == Ending::interrupted
                         ? "it was interrupted before its second trial"
                         : fmt::format("its {:g} s (--limit) ended before its second trial", rules.most_seconds);
  }
  if (!rules.assumed_watts) return;
  assume(result, *rules.assumed_watts);
  result.image_joules = image_joules_of(result.trials);
}

}  // namespace

const char* name_of(Ending ending) {
  switch (ending) {
    case Ending::narrow: return "complete";
    case Ending::limit: return "limit reached";
    case Ending::interrupted: return "interrupted";
    case Ending::failed: break;
  }
  return "failed";
}

Estimate Result::images_per_second() const {
  const double value = 1 / image_seconds->value;
  return {value, value * image_seconds->error / image_seconds->value};
}

Estimate Result::gflops_per_watt(const Estimate& image_energy) const {
  const double value = image_flops / 1e9 / image_energy.value;
  return {value, value * image_energy.error / image_energy.value};
}

Idle measure_idle(const StudyMeter& meter, const Rules& rules, const std::atomic<bool>& stop) {
  if (!meter.look) return {.watts = std::nullopt, .refusal = meter.why};
  const auto rest = [] { Clock::sleep_for(std::chrono::milliseconds(50)); };
  const Clock::time_point deadline = Clock::now() + Clock::seconds(rules.most_seconds);
  const Span span = run_span(rest, meter.look, rules, deadline, stop);
  if (span.stopped) return {.watts = std::nullopt, .refusal = "it was interrupted"};
  if (!span.measured.energy) return {.watts = std::nullopt, .refusal = span.measured.refusal};
  return {.watts = Estimate{span.measured.watts(), span.measured.energy->error / span.seconds}, .refusal = ""};
}

Result measure(const Work& work, const StudyMeter& meter, const Rules& rules, const std::atomic<bool>& stop) {
  Result result{.ending = Ending::limit, .image_flops = work.flops / work.images, .refusal = meter.why};
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline = begin + Clock::seconds(rules.most_seconds);
  do {
    work.step();
  } while (!stop && seconds_since(begin) < rules.warm_up);
  Look look = meter.look;
  int refusals = 0;
  while (true) {
    if (static_cast<int>(result.trials.size()) >= rules.least_trials &&
        narrow(look ? image_joules_of(result.trials) : image_seconds_of(result.trials), rules.interval)) {
      result.ending = Ending::narrow;
      break;
    }
    if (static_cast<int>(result.trials.size()) >= rules.most_trials || Clock::now() >= deadline) break;
    const Span span = run_span(work.step, look, rules, deadline, stop);
    if (stop) {
      result.ending = Ending::interrupted;
      break;
    }
    result.trials.push_back({.seconds = span.seconds,
                             .images = static_cast<double>(span.steps) * work.images,
                             .joules = span.measured.energy,
                             .wraps = span.measured.wraps,
                             .gaps = span.measured.gaps,
                             .gap_seconds = span.measured.gap_seconds});
    if (!look) continue;
    result.refresh = span.measured.refresh;
    if (span.measured.energy) continue;
    result.refusal = span.measured.refusal;
    if (++refusals == kMostRefusals) look = nullptr;
  }
  conclude(result, refusals < kMostRefusals, rules);
  return result;
}

void take_off_idle(Result& result, const Idle& before, const Idle& after) {
  if (!result.image_joules || result.assumed) {
    result.no_idle = result.assumed ? "the power is assumed" : result.refusal;
    return;
  }
  if (!before.watts || !after.watts) {
    result.no_idle = "idle power: " + (before.watts ? after.refusal : before.refusal);
    return;
  }
  const double middle = 0.5 * (before.watts->value + after.watts->value);
  const double drift = 0.5 * std::abs(before.watts->value - after.watts->value);
  const double error = std::hypot(0.5 * (before.watts->error + after.watts->error), drift);
  result.idle_watts = Estimate{middle, error};
  std::vector<double> values;
  std::vector<double> errors;
  for (const Trial& trial : measured_trials(result.trials)) {
    values.push_back((trial.joules->value - middle * trial.seconds) / trial.images);
    errors.push_back(std::hypot(trial.joules->error, error * trial.seconds) / trial.images);
  }
  const Estimate above = mean_of(values, errors);
  if (above.value <= above.error) {
    result.no_idle = fmt::format("the power is not above the idle power of {:.3g} W by more than the interval", middle);
    return;
  }
  result.image_above_idle = above;
  result.no_idle.clear();
}

}  // namespace convoy::study
