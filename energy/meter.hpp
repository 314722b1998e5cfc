// Meters of energy and power. A meter reads; it neither integrates nor judges (energy/record.hpp does).
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"

namespace convoy::energy {

/// What the values of a meter are: a counter in J from an arbitrary start, or the power in W.
enum class Quantity { joules, watts };

/// The part of a machine that a meter covers.
enum class Scope {
  rail,     ///< some supply rails of a board, or a part of a chip
  gpu,      ///< a GPU with its memory
  package,  ///< processor packages
  board,    ///< a whole board or phone, without its power supply
  wall      ///< a whole machine with its power supply
};

/// How a source comes to its values.
enum class Origin {
  measured,  ///< a sensor of current and voltage
  smoothed,  ///< a sensor whose values are averages over a while
  modelled   ///< computed from other quantities, by a fit or a model
};

/// One counter or sensor of a meter. The channels of a meter are added.
struct Channel {
  std::string name;
  double wraps_at = 0;  ///< J after which a counter begins again at 0; 0 if it never does
};

/// A description of a meter, for people and for the evaluation of its readings.
struct MeterInfo {
  std::string name;    ///< the name that --meter takes, such as "rapl" or "nvml:0"
  std::string source;  ///< name of the sensor and its files, for people
  std::string device;  ///< the device that is measured: "cpu", "gpu 0000:01:00.0", "machine", or a rail's name
  Scope scope = Scope::rail;
  Origin origin = Origin::measured;
  Quantity quantity = Quantity::watts;
  std::vector<Channel> channels;
  double refresh = 0;    ///< seconds between two new values as documented; 0 if unknown
  double averaging = 0;  ///< seconds over which the sensor averages; 0 if it does not
  double spec = 0;       ///< largest relative error of the sensor as its maker states it; 0 if unknown
  /// Seconds after which a counter may have wrapped more than once between two readings.
  double longest_gap = std::numeric_limits<double>::infinity();
  bool by_default = true;  ///< whether the meter may be chosen without being named
};

/// Values of a meter at one time.
struct Reading {
  std::vector<double> values;  ///< of each channel, in J or W
  /// A second source for the same channels together, in W where `values` are in J, and in J where they are in W.
  std::optional<double> check;
  /// When the values were taken, where the meter knows; otherwise they are as of now.
  std::optional<Clock::time_point> taken;
  /// The sensor's own time or number of the values. Where there is one, equal stamps mean the same reading.
  std::optional<double> stamp;
};

/// The meter works, but it can tell no energy in this state, such as while a battery is charged. The text gives the
/// reason and the remedy.
class NotMeasurable : public Error {
 public:
  using Error::Error;
};

/// A source of readings. Meters are used by one thread at a time.
class Meter {
 public:
  virtual ~Meter() = default;
  /// Returns the readings since the last call: one for most meters; none or several where a meter keeps its own log.
  /// Throws NotMeasurable, and Error where this reading alone failed.
  virtual std::vector<Reading> read() = 0;
};

/// A meter that was found, usable or not.
struct MeterRow {
  MeterInfo info;
  std::unique_ptr<Meter> meter;  ///< null if the meter is unusable
  std::string unusable;          ///< why the meter cannot be used, and how to make it usable; empty if it can
  bool chosen = false;           ///< whether it is the default for its device
};

/// Returns the row of a meter after a first reading, which decides whether the meter is usable.
MeterRow tried(MeterInfo info, std::unique_ptr<Meter> meter);
/// Returns the row of a meter that cannot be used.
MeterRow unusable(MeterInfo info, std::string why);

std::string_view name_of(Scope scope);
std::string_view name_of(Origin origin);

}  // namespace convoy::energy
