// Records of made-up meters that are filled in made-up time.
#pragma once

#include <functional>
#include <utility>

#include "energy/record.hpp"
#include "tests/energy/fake_machine.hpp"

namespace convoy::energy {

inline MeterInfo counter(double wraps_at = 0) {
  return {.name = "counter", .quantity = Quantity::joules, .channels = {{"a", wraps_at}}};
}

inline MeterInfo sensor() { return {.name = "sensor", .quantity = Quantity::watts, .channels = {{"a"}}}; }

/// A record that is filled in made-up time.
class Filling {
 public:
  explicit Filling(MeterInfo info) : record(std::move(info)) {}

  /// Adds readings of `value` of the time since the begin, each `every` s, for `seconds`.
  void read(double seconds, double every, const std::function<Reading(double)>& value) {
    const double end = time.seconds() + seconds;
    while (time.seconds() < end - 1e-9) {
      time.pass(every);
      record.add(Clock::now(), value(time.seconds()));
    }
  }
  void read_values(double seconds, double every, const std::function<double(double)>& value) {
    read(seconds, every, [&](double t) { return Reading{.values = {value(t)}}; });
  }
  Clock::time_point at(double seconds) const { return begin + Clock::seconds(seconds); }
  Measurement between(double from, double to) const { return record.between(at(from), at(to)); }

  FakeTime time;
  Clock::time_point begin = Clock::now();
  Record record;
};

}  // namespace convoy::energy
