#include "energy/record.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace convoy::energy {
namespace {

/// No machine on a desk takes more; a larger power is a wrong unit or a counter that was reset.
constexpr double kMostWatts = 10000;
/// No second counter moves by so many J between two readings, however coarse it is.
constexpr double kMostCheckStep = 1e9;
constexpr std::size_t kMostPoints = 1 << 15;
constexpr std::size_t kMostFaults = 256;
/// Where there were fewer than three new values in kRecentSeconds, the refresh is longer than this.
constexpr double kUnseenRefresh = 20;
/// What the refresh is observed over.
constexpr int kRecentPoints = 100;
constexpr double kRecentSeconds = 60;

/// Whether a machine can take this power. It is false for NaN.
bool is_power(double watts) { return watts >= 0 && watts <= kMostWatts; }

std::string not_a_power(double watts) {
  return fmt::format("a power of {:.6g} W is not that of a machine that computes", watts);
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

Record::Record(MeterInfo info) : info_(std::move(info)), begin_(Clock::now()) {}

double Record::seconds(Clock::time_point time) const { return std::chrono::duration<double>(time - begin_).count(); }

void Record::add(Clock::time_point now, const Reading& reading) {
  const double time = seconds(reading.taken.value_or(now));
  invariant(values_.empty() || values_.size() == reading.values.size(), "a meter has as many values in each reading");
  faulty_ = false;
  trouble_.clear();
  if (!values_.empty()) count_gap(time);
  ++next_.readings;
  if (!values_.empty()) {
    add_check(time, reading);
    info_.quantity == Quantity::joules ? add_joules(time, reading) : add_watts(time, reading);
  } else {
    changed_.assign(reading.values.size(), time);
    next_.most_watts = next_.least_watts = info_.quantity == Quantity::watts ? sum(reading.values) : 0;
    push(time);
  }
  values_ = reading.values;
  stamp_ = reading.stamp;
  check_ = reading.check;
  last_ = time;
}

/// Looks at the time since the last reading before the one at `time` changes the refresh.
void Record::count_gap(double time) {
  const double since = time - last_;
  next_.gap = std::max(next_.gap, since);
  double usual = refresh();
  if (usual == 0) usual = info_.refresh > 0 ? info_.refresh : kUnseenRefresh;
  if (since <= kGapRefreshes * usual) return;
  ++next_.gaps;
  next_.gap_seconds += since;
}

void Record::add_joules(double time, const Reading& reading) {
  double added = 0;
  bool changed = reading.stamp != stamp_;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    double step = reading.values[i] - values_[i];
    const double range = i < info_.channels.size() ? info_.channels[i].wraps_at : 0;
    if (step < 0 && range > 0) {
      step += range;
      ++next_.wraps;
    }
    if (step < 0 || step > kMostWatts * std::max(time - changed_[i], 1e-3)) {
      fault_at(time,
               fmt::format("the counter went from {:.6g} J to {:.6g} J, which no energy explains; its driver may have "
                           "been loaded anew",
                           values_[i], reading.values[i]));
      return;
    }
    added += step;
    if (step != 0) {
      changed = true;
      changed_[i] = time;
    } else if (!reading.stamp) {
      next_.still = std::max(next_.still, time - changed_[i] - next_.gap);
    }
  }
  if (time - last_ > info_.longest_gap) {
    fault_at(time,
             fmt::format("there was no reading for {:.0f} s, in which the counter may have wrapped more than once",
                         time - last_));
  }
  next_.joules += added;
  if (!changed) return;
  next_.step = next_.joules - points_.back().joules;
  next_.changes = 1;
  push(time);
}

void Record::add_watts(double time, const Reading& reading) {
  const double before = sum(values_);
  const double now = sum(reading.values);
  const bool changed = reading.stamp ? reading.stamp != stamp_ : reading.values != values_;
  if (!is_power(before) || !is_power(now)) {
    // Such numbers would swallow the energies after them, so they are not added.
    fault_at(time, not_a_power(is_power(now) ? before : now));
    push(time);
    return;
  }
  next_.joules += 0.5 * (before + now) * (time - last_);
  next_.most_watts = std::max(before, now);
  next_.least_watts = std::min(before, now);
  if (changed) {
    next_.changes = 1;
    next_.rough = (now - before) * (now - before);
  }
  push(time);
}

void Record::add_check(double time, const Reading& reading) {
  if (!reading.check || !check_) return;
  ++next_.checks;
  if (*reading.check != *check_) ++next_.check_changes;
  if (info_.quantity == Quantity::joules) {
    for (const double watts : {*check_, *reading.check}) {
      if (!is_power(watts)) return fault_at(time, not_a_power(watts));
    }
    next_.check += 0.5 * (*check_ + *reading.check) * (time - last_);
    return;
  }
  const double step = *reading.check - *check_;
  if (!(std::abs(step) <= kMostCheckStep)) {
    return fault_at(
        time, fmt::format("the counter beside the power went from {:.6g} J to {:.6g} J", *check_, *reading.check));
  }
  next_.check += step;
  next_.check_step = std::max(next_.check_step, std::abs(step));
}

void Record::push(double time) {
  next_.time = time;
  points_.push_back(next_);
  next_ = {.joules = next_.joules, .check = next_.check};
  if (points_.size() > kMostPoints) thin_out();
}

/// Adds what has happened before the point `more` to what has happened before `all`, but for the powers.
void Record::join(Point& all, const Point& more) {
  all.step = std::max(all.step, more.step);
  all.rough += more.rough;
  all.gap = std::max(all.gap, more.gap);
  all.still = std::max(all.still, more.still);
  all.check_step = std::max(all.check_step, more.check_step);
  all.merged += more.merged;
  all.readings += more.readings;
  all.changes += more.changes;
  all.wraps += more.wraps;
  all.gaps += more.gaps;
  all.gap_seconds += more.gap_seconds;
  all.missed += more.missed;
  all.checks += more.checks;
  all.check_changes += more.check_changes;
}

void Record::keep(Clock::time_point time) { kept_.push_back(seconds(time)); }

void Record::thin_out() {
  std::deque<Point> thinned;
  // The newer half stays as it is.
  const std::size_t half = points_.size() / 2;
  bool merges = false;  // whether the last point goes into the next
  for (std::size_t i = 0; i < points_.size(); ++i) {
    Point point = points_[i];
    if (merges) {
      const Point& before = points_[i - 1];
      point.most_watts = std::max(point.most_watts, before.most_watts);
      point.least_watts = std::min(point.least_watts, before.least_watts);
      join(point, before);
      ++point.merged;
    }
    const bool kept = i == 0 || i >= half || std::ranges::any_of(kept_, [&](double time) {
                        return points_[i - 1].time < time && time <= points_[i + 1].time;
                      });
    merges = !merges && !kept;
    if (!merges) thinned.push_back(point);
  }
  points_ = std::move(thinned);
}

void Record::miss(const std::string& why) {
  ++next_.missed;
  trouble_ = why;
}

void Record::fault(Clock::time_point now, const std::string& why) {
  trouble_ = why;
  fault_at(seconds(now), why);
}

void Record::fault_at(double time, const std::string& why) {
  if (faulty_ && !faults_.empty() && faults_.back().why == why) {
    faults_.back().to = time;
  } else {
    faults_.push_back({points_.empty() ? time : last_, time, why});
    if (faults_.size() > kMostFaults) {
      // The two oldest become one, and with them the time between them.
      faults_[1].from = faults_[0].from;
      faults_.pop_front();
    }
  }
  faulty_ = true;
}

std::optional<Clock::time_point> Record::covered() const {
  if (points_.empty()) return std::nullopt;
  return begin_ + Clock::seconds(points_.back().time);
}

double Record::joules(Clock::time_point from, Clock::time_point to) const {
  return joules_at(seconds(to), 0) - joules_at(seconds(from), 0);
}

bool Record::covers(Clock::time_point time) const { return !points_.empty() && points_.back().time >= seconds(time); }

std::optional<double> Record::watts_now() const {
  if (points_.empty() || faulty_) return std::nullopt;
  if (info_.quantity == Quantity::watts) return sum(values_);
  const Point& last = points_.back();
  const auto before = std::ranges::find_if(points_.rbegin(), points_.rend(),
                                           [&](const Point& point) { return point.time <= last.time - 1; });
  const Point& first = before == points_.rend() ? points_.front() : *before;
  if (first.time >= last.time) return std::nullopt;
  return (last.joules - first.joules) / (last.time - first.time);
}

double Record::refresh() const {
  int changes = 0;
  double from = last_;
  const auto begin = points_.size() > kRecentPoints ? points_.end() - kRecentPoints : points_.begin();
  for (auto point = points_.end(); point != begin && last_ - (point - 1)->time < kRecentSeconds; --point) {
    from = (point - 1)->time;
    changes += (point - 1)->changes;
  }
  return changes < 3 ? 0 : (last_ - from) / changes;
}

/// The energy from the record's begin up to a time. Beyond the points it goes on with the mean power `slope`.
double Record::joules_at(double time, double slope) const {
  const auto after = std::ranges::lower_bound(points_, time, {}, &Point::time);
  if (after == points_.end()) return points_.back().joules + slope * (time - points_.back().time);
  if (after == points_.begin()) return points_.front().joules - slope * (points_.front().time - time);
  const Point& a = *(after - 1);
  const Point& b = *after;
  return a.joules + (b.joules - a.joules) * (time - a.time) / (b.time - a.time);
}

}  // namespace convoy::energy
