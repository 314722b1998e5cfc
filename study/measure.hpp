// The energy and the speed of a piece of work that is repeated: trials until the interval of their mean is narrow
// enough.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "energy/record.hpp"
#include "study/estimate.hpp"

namespace convoy::study {

/// A piece of work.
struct Work {
  std::function<void()> step;  ///< does the work once, and returns when it is done
  int images = 1;              ///< in a step
  double flops = 0;            ///< floating-point operations of a step
};

/// Calls a function with the record of a meter, which nothing changes meanwhile (energy::Sampler::look).
using Look = std::function<void(const std::function<void(energy::Record&)>&)>;

/// A meter, or the reason why there is none.
struct StudyMeter {
  Look look;        ///< empty where there is no meter
  std::string why;  ///< empty where there is a meter
};

/// When a trial is long enough, and when there are enough trials.
struct Rules {
  /// Least length of a trial, in s. A trial also has 100 new values of the meter (energy::kLeastRefreshes).
  double trial_seconds = 10;
  double warm_up = 10;     ///< s of work before the first trial
  double interval = 0.05;  ///< half-width of the interval, relative to the mean, at which trials end
  int least_trials = 5;
  int most_trials = 30;
  /// No further trial begins after so many s, and a trial that still lacks new values ends.
  double most_seconds = 1800;
  std::optional<double> assumed_watts;  ///< power that is assumed where none can be measured
};

struct Trial {
  double seconds = 0;
  double images = 0;
  std::optional<energy::Joules> joules;
  int wraps = 0;           ///< of the meter's counters
  int gaps = 0;            ///< between the meter's readings (energy/record.hpp)
  double gap_seconds = 0;  ///< the seconds in these
};

/// Why trials ended.
enum class Ending {
  narrow,       ///< the interval is as narrow as the rules ask for
  limit,        ///< the most trials or the most seconds were reached first
  interrupted,  ///< somebody asked to stop
  failed        ///< the device could not do the work; Result::refusal says why
};
const char* name_of(Ending ending);

/// The idle power of a machine in W, or why it is not known.
struct Idle {
  std::optional<Estimate> watts;
  std::string refusal;
};

/// What trials have shown. All energies of an image are means over the trials.
struct Result {
  Ending ending = Ending::failed;
  std::vector<Trial> trials;
  double refresh = 0;                        ///< s between two new values of the meter, as observed; 0 without a meter
  double image_flops = 0;                    ///< floating-point operations of an image
  std::optional<Estimate> image_seconds;     ///< nothing with fewer than two trials
  std::optional<Estimate> image_joules;      ///< nothing where energy is neither measurable nor assumed
  std::optional<Estimate> image_above_idle;  ///< J of an image without the idle power
  std::optional<Estimate> idle_watts;
  bool assumed = false;                                     ///< whether joules are those of an assumed power
  std::string refusal;                                      ///< why energy is not measurable; empty if it is
  std::string no_idle = "the idle power was not measured";  ///< why there are no J above idle; empty if there are

  /// Return images/s and GFLOP/s/W for what is known. The relative half-width stays the same.
  Estimate images_per_second() const;
  Estimate gflops_per_watt(const Estimate& image_energy) const;
};

/// Measures the power of a machine that does nothing, for as long as a trial takes.
Idle measure_idle(const StudyMeter& meter, const Rules& rules, const std::atomic<bool>& stop);

/// Warms up, and repeats trials of the work. Errors of the work pass through.
Result measure(const Work& work, const StudyMeter& meter, const Rules& rules, const std::atomic<bool>& stop);

/// Fills in the joules above idle, from the idle power before and after the trials. Half of the difference of the two
/// widens the interval.
void take_off_idle(Result& result, const Idle& before, const Idle& after);

}  // namespace convoy::study
