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
/// Two sources of one energy agree up to this share.
constexpr double kMostDisagreement = 0.1;
/// A second source with fewer new values is too coarse to compare.
constexpr int kLeastCheckChanges = 10;
/// So many refreshes without a new value are a counter that stands still.
constexpr double kStillRefreshes = 20;
/// The share of a span that may be without readings of power.
constexpr double kLargestGap = 0.1;
constexpr double kNormal95 = 1.96;
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

/// The points within a span, joined.
struct Record::Span {
  Point all;
  double seconds = 0;
  double slope = 0;  ///< mean power between the first and the last point, in W
  double refresh = 0;
  double gaps = 0;     ///< s without readings of power
  double outside = 0;  ///< s at the ends beyond the first and the last reading
  double coarse = 0;   ///< J in readings that were thinned out around the ends
  double joules = 0;   ///< between the first and the last point
  double check = 0;    ///< of the second source, likewise
};

Record::Record(MeterInfo info) : info_(std::move(info)), begin_(Clock::now()) {}

double Record::seconds(Clock::time_point time) const { return std::chrono::duration<double>(time - begin_).count(); }

void Record::add(Clock::time_point now, const Reading& reading) {
  const double time = seconds(reading.taken.value_or(now));
  invariant(values_.empty() || values_.size() == reading.values.size(), "a meter has as many values in each reading");
  faulty_ = false;
  trouble_.clear();
  if (!values_.empty()) next_.gap = std::max(next_.gap, time - last_);
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

Record::Span Record::span(double from, double to) const {
  Span span;
  span.seconds = to - from;
  // From the first point after `from` to the first at or after `to`; a point tells what happened before it.
  const auto first = std::ranges::upper_bound(points_, from, {}, &Point::time);
  auto last = std::ranges::lower_bound(points_, to, {}, &Point::time);
  const bool open = last == points_.end();
  if (!open) ++last;
  Point& all = span.all;
  bool any = false;
  for (auto point = first; point < last; ++point) {
    join(all, *point);
    if (point == points_.begin()) continue;  // it says nothing about the time before it
    all.most_watts = std::max(all.most_watts, point->most_watts);
    all.least_watts = any ? std::min(all.least_watts, point->least_watts) : point->least_watts;
    any = true;
  }
  if (open) join(all, next_);
  const auto begin = first == points_.begin() ? first : first - 1;
  if (begin < last) {
    const Point& a = *begin;
    const Point& b = *(last - 1);
    span.joules = b.joules - a.joules;
    span.check = b.check - a.check;
    if (b.time > a.time) span.slope = span.joules / (b.time - a.time);
    span.outside = std::max(0.0, a.time - from) + std::max(0.0, to - b.time);
    if (a.time < from && begin + 1 < last && (begin + 1)->merged > 0) span.coarse += (begin + 1)->joules - a.joules;
    if (b.time > to && begin + 1 < last && b.merged > 0) span.coarse += b.joules - (last - 2)->joules;
  }
  if (all.changes > 0) span.refresh = span.seconds / all.changes;
  const double usual = all.readings > 0 ? span.seconds / all.readings : 0;
  for (auto point = first; point < last; ++point) {
    if (point->gap > 5 * usual) span.gaps += std::min(point->gap, span.seconds);
  }
  return span;
}

std::string Record::refusal(const Span& span, double from, double to) const {
  const auto fault = std::ranges::find_if(faults_, [&](const Fault& f) { return f.from < to && f.to > from; });
  if (fault != faults_.end()) return fault->why;
  if (points_.empty()) return trouble_.empty() ? "the meter has not been read yet" : trouble_;
  const Point& all = span.all;
  if (all.readings == 0) {
    return fmt::format("the meter was not read in these {:.3g} s{}", span.seconds,
                       trouble_.empty() ? "" : ": " + trouble_);
  }
  const std::string what = info_.quantity == Quantity::joules ? "counter" : "sensor";
  if (all.changes == 0) {
    return fmt::format("the {} is frozen: none of {} readings in {:.3g} s gave a new value", what, all.readings,
                       span.seconds);
  }
  if (all.changes < kLeastRefreshes) {
    return fmt::format(
        "{:.3g} s are too short: the {} gave {} new values, one each {:.3g} s, and {} are needed; measure for {:.3g} "
        "s or longer",
        span.seconds, what, all.changes, span.refresh, kLeastRefreshes, kLeastRefreshes * span.refresh * 1.05);
  }
  if (info_.quantity == Quantity::joules && all.still > std::max(kStillRefreshes * span.refresh, 0.1)) {
    return fmt::format("the counter stood still for {:.3g} s and usually moves each {:.3g} s", all.still, span.refresh);
  }
  if (span.outside > std::max(3 * span.refresh, 0.02 * span.seconds)) {
    return fmt::format("the meter has no readings for {:.3g} s at the ends of these {:.3g} s{}", span.outside,
                       span.seconds, trouble_.empty() ? "" : ": " + trouble_);
  }
  if (info_.quantity == Quantity::watts && span.gaps > kLargestGap * span.seconds) {
    return fmt::format("{:.3g} of {:.3g} s are without readings", span.gaps, span.seconds);
  }
  return "";
}

double Record::error(const Span& span) const {
  const Point& all = span.all;
  const double swing = all.most_watts - all.least_watts;
  const double step = info_.quantity == Quantity::joules ? all.step : span.refresh * all.most_watts;
  const double quantisation = step + span.coarse + span.outside * span.slope;
  const double averaging = info_.averaging * swing;
  double sampling = 0;
  double gaps = 0;
  if (info_.quantity == Quantity::watts) {
    const double n = all.changes;
    sampling = kNormal95 * span.seconds * std::sqrt(all.rough / (2 * n)) / std::sqrt(n);
    gaps = 0.5 * span.gaps * swing;
  }
  const double sensor = info_.spec * span.joules;
  return std::sqrt(quantisation * quantisation + averaging * averaging + sampling * sampling + gaps * gaps +
                   sensor * sensor);
}

Measurement Record::between(Clock::time_point from, Clock::time_point to) const {
  const double a = seconds(from);
  const double b = seconds(to);
  Measurement result{.seconds = b - a};
  if (b <= a) {
    result.refusal = "the span has no length";
    return result;
  }
  const Span span = this->span(a, b);
  result.refresh = span.refresh;
  result.longest_gap = span.all.gap;
  result.readings = span.all.readings;
  result.changes = span.all.changes;
  result.wraps = span.all.wraps;
  result.missed = span.all.missed;
  result.refusal = refusal(span, a, b);
  if (!result.refusal.empty()) return result;
  const double error = this->error(span);
  if (span.all.checks > 0 && span.all.checks >= span.all.readings - 1 && span.all.check_changes >= kLeastCheckChanges) {
    const double apart = std::abs(span.joules - span.check);
    const double larger = std::max(span.joules, std::abs(span.check));
    if (apart > kMostDisagreement * larger + span.all.check_step) {
      const bool counts = info_.quantity == Quantity::joules;
      result.refusal = fmt::format("its two sources disagree: {:.4g} J by the {} and {:.4g} J by the {}", span.joules,
                                   counts ? "counter" : "power", span.check, counts ? "power" : "counter");
      return result;
    }
    result.compared = true;
  }
  result.energy = Joules{joules_at(b, span.slope) - joules_at(a, span.slope), error};
  return result;
}

}  // namespace convoy::energy
