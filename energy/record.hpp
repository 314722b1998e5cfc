// The energy of a span of time, from a meter's readings: with an interval, or a refusal with its reason. Never a guess.
//
// Counters are added by difference. Only readings with a new value count, and the energy between two of them is taken
// to be even. Power is integrated by the trapezoid rule. The 95 % interval joins, as the root of the sum of squares,
//   quantisation  refresh x largest power, or the largest step of a counter: the ends of the span lie anywhere between
//                 two new values;
//   averaging     the sensor's averaging time x (largest - smallest power);
//   sampling      1.96 standard errors of the mean power, from the differences between successive values (von Neumann,
//                 1941), which a slow change of power hardly enlarges;
//   gaps          seconds in gaps x (largest - smallest power): the power in them may have been any of these;
//   the sensor    the error that its maker states, where it is known.
// A gap is a time between two readings of more than five refreshes (kGapRefreshes), as observed before it. Up to there
// the differences between successive values, which sampling contains, say how much the power changes meanwhile; in a
// longer time it may have changed and changed back. A counter goes on in a gap, so its joules stay right, while the
// split of a run within the gap is taken to be even. Powers of which more than a tenth of the span is in gaps are
// refused.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "energy/meter.hpp"

namespace convoy::energy {

/// An energy in J. The true one lies within `value` -+ `error` in at least 95 of 100 cases, up to the error of a sensor
/// whose maker states none.
struct Joules {
  double value = 0;
  double error = 0;
};

/// What a meter tells about a span of time.
struct Measurement {
  std::optional<Joules> energy;  ///< nothing if it is not measurable
  std::string refusal;           ///< why it is not measurable; empty if it is
  double seconds = 0;
  double refresh = 0;      ///< seconds between two new values, as observed; 0 if there was none
  double longest_gap = 0;  ///< longest time between two readings, in s
  int readings = 0;
  int changes = 0;         ///< readings with a new value
  int wraps = 0;           ///< of counters
  int gaps = 0;            ///< times between two readings of more than kGapRefreshes
  double gap_seconds = 0;  ///< the seconds of these within the span
  int missed = 0;          ///< readings that failed
  bool compared = false;   ///< whether a second source was there, and agreed

  /// Mean power in W. To be called for what is measurable.
  double watts() const { return energy->value / seconds; }
};

/// A span has at least so many new values; otherwise its energy is not measurable.
inline constexpr int kLeastRefreshes = 100;
/// A time of more refreshes between two readings is a gap.
inline constexpr double kGapRefreshes = 5;

/// The readings of one meter. After some minutes or hours old ones are thinned out: totals stay exact, and times become
/// coarser, which the interval of a span with such an end takes in.
class Record {
 public:
  explicit Record(MeterInfo info);

  /// Adds a reading that was made at `now`, later than the one before.
  void add(Clock::time_point now, const Reading& reading);
  /// Notes that a reading failed.
  void miss(const std::string& why);
  /// Notes that no energy can be told around `now`.
  void fault(Clock::time_point now, const std::string& why);
  /// Keeps the readings around a time as they are, so that spans may begin or end there later.
  void keep(Clock::time_point time);

  /// Returns the energy between two times.
  Measurement between(Clock::time_point from, Clock::time_point to) const;
  /// Returns the J between two times up to covered(), without a judgement: between() of a span that holds them says
  /// whether they can be trusted. To be called after the first reading.
  double joules(Clock::time_point from, Clock::time_point to) const;
  /// Returns the time up to which readings tell the energy; nothing before the first.
  std::optional<Clock::time_point> covered() const;
  /// Whether there is a reading from `time` or later, so that more readings will not change what is known up to it.
  bool covers(Clock::time_point time) const;
  /// Returns the power of the last second or of the last reading, in W, or nothing where there is none.
  std::optional<double> watts_now() const;
  /// Returns the seconds between two new values, as observed lately; 0 if there were fewer than three.
  double refresh() const;
  /// Returns why the last reading gave nothing; empty if it gave something.
  const std::string& trouble() const { return trouble_; }
  const MeterInfo& info() const { return info_; }

 private:
  /// A reading with a new value, with what the readings since the point before have shown.
  struct Point {
    double time = 0;    ///< s since the record's begin
    double joules = 0;  ///< since the record's begin
    double check = 0;   ///< J of the second source, since the record's begin
    double step = 0;    ///< of a counter since the point before, in J
    double most_watts = 0;
    double least_watts = 0;
    double rough = 0;       ///< sum of the squares of differences between successive powers, in W^2
    double gap = 0;         ///< longest time between two readings, in s
    double still = 0;       ///< longest time in which a counter stood still although it was read, in s
    double check_step = 0;  ///< largest step of the second source, in J, where that is a counter
    int merged = 0;         ///< points that were thinned out and went into this one
    int readings = 0;
    int changes = 0;
    int wraps = 0;
    int gaps = 0;
    double gap_seconds = 0;
    int missed = 0;
    int checks = 0;         ///< readings with a second source
    int check_changes = 0;  ///< new values of the second source
  };
  struct Fault {
    double from = 0;
    double to = 0;
    std::string why;
  };
  /// Everything that a span's points say together.
  struct Span;

  double seconds(Clock::time_point time) const;
  void count_gap(double time);
  void add_joules(double time, const Reading& reading);
  void add_watts(double time, const Reading& reading);
  void add_check(double time, const Reading& reading);
  void push(double time);
  static void join(Point& all, const Point& more);
  void thin_out();
  void fault_at(double time, const std::string& why);
  Span span(double from, double to) const;
  double joules_at(double time, double slope) const;
  std::string refusal(const Span& span, double from, double to) const;
  double error(const Span& span) const;

  MeterInfo info_;
  Clock::time_point begin_;
  std::deque<Point> points_;
  std::deque<Fault> faults_;
  std::vector<double> kept_;  ///< times around which nothing is thinned out
  std::string trouble_;

  /// Of the readings up to now.
  Point next_;                   ///< the readings since the last point, joined
  bool faulty_ = false;          ///< whether the last reading was a fault
  std::vector<double> values_;   ///< of the last reading
  std::vector<double> changed_;  ///< when each channel changed last
  std::optional<double> stamp_;  ///< of the last reading
  std::optional<double> check_;  ///< of the last reading
  double last_ = 0;              ///< time of the last reading
};

}  // namespace convoy::energy
