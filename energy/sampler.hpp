// Reads a meter in a separate thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "energy/meter.hpp"
#include "energy/record.hpp"

namespace convoy::energy {

/// Reads a meter once into a record. An exception of the meter becomes an entry of the record.
void sample(Meter& meter, Record& record);

/// Returns the seconds after which a meter is read again: half of its refresh interval, as observed or else as
/// documented, but at least 5 ms and at most 1 s. The time is longer if reading would otherwise take over 1/200 of a
/// core. `cost` is the processor time of one reading in s.
double sampling_interval(const Record& record, double cost);

/// Reads a meter from construction to destruction.
class Sampler {
 public:
  /// The meter of the row must be usable, and the machine that the meter reads must outlive the sampler.
  explicit Sampler(MeterRow row);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  const MeterInfo& info() const { return info_; }
  /// Calls `look` with the record, which no other thread changes meanwhile.
  void look(const std::function<void(Record&)>& look);
  /// Returns the processor time that reading has taken so far, including the time of commands that it ran, in s.
  double cost();

 private:
  void run();

  MeterInfo info_;
  std::unique_ptr<Meter> meter_;
  std::mutex mutex_;
  std::condition_variable ends_;
  Record record_;  ///< guarded by mutex_, as are cost_ and ending_
  double cost_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace convoy::energy
