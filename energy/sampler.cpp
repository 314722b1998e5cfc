#include "energy/sampler.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/stopwatch.hpp"
#include "energy/machine.hpp"

namespace convoy::energy {
namespace {

constexpr double kShortestInterval = 0.005;
constexpr double kLongestInterval = 1;
constexpr double kFirstInterval = 0.02;
/// The largest share of a core.
constexpr double kLargestCost = 0.005;

/// The processor time of this thread and of the commands that it has run, in s.
double processor_time() { return thread_seconds() + command_seconds(); }

/// What came of reading a meter.
struct Outcome {
  Clock::time_point time;  ///< the middle of the reading
  std::vector<Reading> readings;
  std::string missed;
  std::string fault;

  void add_to(Record& record) const {
    for (const Reading& reading : readings) record.add(time, reading);
    if (!fault.empty()) record.fault(time, fault);
    if (!missed.empty()) record.miss(missed);
  }
};

Outcome outcome_of(Meter& meter) {
  Outcome outcome;
  const Clock::time_point before = Clock::now();
  try {
    outcome.readings = meter.read();
  } catch (const NotMeasurable& error) {
    outcome.fault = error.what();
  } catch (const Error& error) {
    outcome.missed = error.what();
  }
  outcome.time = before + (Clock::now() - before) / 2;
  return outcome;
}

}  // namespace

void sample(Meter& meter, Record& record) { outcome_of(meter).add_to(record); }

double sampling_interval(const Record& record, double cost) {
  double refresh = record.refresh();
  const double documented = record.info().refresh;
  // A refresh that is observed cannot be shorter than the interval between readings, so both are looked at.
  if (refresh == 0 || (documented > 0 && documented < refresh)) refresh = documented;
  const double wanted = refresh > 0 ? refresh / 2 : kFirstInterval;
  const double allowed = std::clamp(wanted, kShortestInterval, kLongestInterval);
  return std::max(allowed, cost / kLargestCost);
}

Sampler::Sampler(MeterRow row)
    : info_(row.info), meter_(std::move(row.meter)), record_(std::move(row.info)), thread_([this] { run(); }) {}

Sampler::~Sampler() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Sampler::run() {
  const double begin = processor_time();
  double before = begin;
  double cost = 0;  // of a round, smoothed
  while (true) {
    const Clock::time_point due = Clock::now();
    const Outcome outcome = outcome_of(*meter_);
    std::unique_lock lock(mutex_);
    outcome.add_to(record_);
    const double now = processor_time();
    cost = cost == 0 ? now - before : 0.9 * cost + 0.1 * (now - before);
    before = now;
    cost_ = now - begin;
    if (ends_.wait_until(lock, due + Clock::seconds(sampling_interval(record_, cost)), [&] { return ending_; })) return;
  }
}

void Sampler::look(const std::function<void(Record&)>& look) {
  const std::lock_guard lock(mutex_);
  look(record_);
}

double Sampler::cost() {
  const std::lock_guard lock(mutex_);
  return cost_;
}

}  // namespace convoy::energy
