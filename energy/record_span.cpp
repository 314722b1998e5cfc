// What the readings of a span come to: its joules, their interval, or a refusal.
#include <algorithm>
#include <cmath>

#include "energy/record.hpp"

namespace convoy::energy {
namespace {

/// Two sources of one energy agree up to this share.
constexpr double kMostDisagreement = 0.1;
/// A second source with fewer new values is too coarse to compare.
constexpr int kLeastCheckChanges = 10;
/// So many refreshes without a new value are a counter that stands still.
constexpr double kStillRefreshes = 20;
/// The share of a span of powers that may be in gaps.
constexpr double kLargestGap = 0.1;
constexpr double kNormal95 = 1.96;

}  // namespace

/// The points within a span, joined.
struct Record::Span {
  Point all;
  double seconds = 0;
  double slope = 0;  ///< mean power between the first and the last point, in W
  double refresh = 0;
  double gaps = 0;     ///< s in gaps
  double outside = 0;  ///< s at the ends beyond the first and the last reading
  double coarse = 0;   ///< J in readings that were thinned out around the ends
  double joules = 0;   ///< between the first and the last point
  double check = 0;    ///< of the second source, likewise
};

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
  // A gap at an end lies only partly in the span. Readings after the last point are a counter's without a new value.
  for (auto point = first; point < last; ++point) {
    const double before = point == points_.begin() ? from : std::max(from, (point - 1)->time);
    span.gaps += std::min(point->gap_seconds, std::max(0.0, std::min(to, point->time) - before));
  }
  if (open) span.gaps += std::min(next_.gap_seconds, span.seconds);
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
    return fmt::format("{:.3g} of {:.3g} s are without readings, and the power in them is not known", span.gaps,
                       span.seconds);
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
    gaps = span.gaps * swing;
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
  result.gaps = span.all.gaps;
  result.gap_seconds = span.gaps;
  result.missed = span.all.missed;
  result.refusal = refusal(span, a, b);
  if (!result.refusal.empty()) return result;
  const double error = this->error(span);
  // Of two sources one is a power, which tells little about gaps.
  const bool comparable = span.gaps <= kLargestGap * span.seconds;
  if (comparable && span.all.checks > 0 && span.all.checks >= span.all.readings - 1 &&
      span.all.check_changes >= kLeastCheckChanges) {
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
