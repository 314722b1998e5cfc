#include "master/jobs/tpe.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace convoy {
namespace {

constexpr double kGoodPart = 0.15;  ///< the quantile of the paper
constexpr int kCandidates = 24;     ///< values that are drawn from l(x) for each parameter
constexpr double kNarrowest = 100;  ///< no normal distribution is narrower than the range over this

/// The share of a normal distribution below x.
double normal_below(double x, double mean, double width) {
  return 0.5 * std::erfc((mean - x) / (width * std::numbers::sqrt2));
}

/// The density of one parameter's observed values, as points of its range from 0 to 1.
class Parzen {
 public:
  explicit Parzen(std::vector<double> points) {
    std::ranges::sort(points);
    const double narrowest = 1.0 / std::min(kNarrowest, static_cast<double>(points.size()) + 2.0);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double left = points[i] - (i > 0 ? points[i - 1] : 0.0);
      const double right = (i + 1 < points.size() ? points[i + 1] : 1.0) - points[i];
      add(points[i], std::clamp(std::max(left, right), narrowest, 1.0));
    }
    add(0.5, 1.0);
  }

  double draw(Random& random) const {
    const Normal& normal = normals_[random.below(static_cast<std::uint32_t>(normals_.size()))];
    // The mean is within the range, so that at least one of three draws is, too.
    while (true) {
      const double x = normal.mean + normal.width * static_cast<double>(random.normal());
      if (x >= 0.0 && x < 1.0) return x;
    }
  }

  double at(double x) const {
    double sum = 0.0;
    for (const Normal& each : normals_) {
      const double z = (x - each.mean) / each.width;
      sum += std::exp(-0.5 * z * z) / (each.width * each.within);
    }
    return sum / static_cast<double>(normals_.size());
  }

 private:
  struct Normal {
    double mean = 0.5;
    double width = 1.0;
    double within = 1.0;  ///< the part of the distribution that is within the range
  };

  void add(double mean, double width) {
    normals_.push_back({mean, width, normal_below(1.0, mean, width) - normal_below(0.0, mean, width)});
  }

  std::vector<Normal> normals_;
};

/// The same for a choice, whose values have equal parts of the range.
class Counts {
 public:
  Counts(const std::vector<double>& points, long values) : counts_(static_cast<std::size_t>(values), 1.0) {
    for (const double point : points) counts_[index(point)] += 1.0;
    total_ = static_cast<double>(points.size()) + static_cast<double>(values);
  }

  double draw(Random& random) const {
    double left = static_cast<double>(random.uniform()) * total_;
    std::size_t i = 0;
    for (; i + 1 < counts_.size() && left >= counts_[i]; ++i) left -= counts_[i];
    return (static_cast<double>(i) + 0.5) / static_cast<double>(counts_.size());
  }

  double at(double x) const { return counts_[index(x)] / total_; }

 private:
  std::size_t index(double x) const {
    return std::min(static_cast<std::size_t>(x * static_cast<double>(counts_.size())), counts_.size() - 1);
  }

  std::vector<double> counts_;
  double total_ = 0.0;
};

/// Of some draws from `good`, the one that is likeliest among good values compared with others.
template <class Density>
double best_draw(const Density& good, const Density& others, Random& random) {
  double best = 0.0;
  double best_quotient = -1.0;
  for (int i = 0; i < kCandidates; ++i) {
    const double x = good.draw(random);
    const double quotient = good.at(x) / others.at(x);
    if (quotient <= best_quotient) continue;
    best = x;
    best_quotient = quotient;
  }
  return best;
}

}  // namespace

TrialSetting tpe_setting(const Space& space, const std::vector<Observation>& observations, Random& random) {
  invariant(observations.size() >= 2, "there are good observations and others");
  std::vector<const Observation*> sorted;
  for (const Observation& each : observations) sorted.push_back(&each);
  std::ranges::stable_sort(sorted, {}, [](const Observation* each) { return each->cost; });
  const auto good = static_cast<std::size_t>(std::ceil(kGoodPart * static_cast<double>(sorted.size())));
  TrialSetting setting;
  for (std::size_t i = 0; i < space.parameters.size(); ++i) {
    const SearchedField& parameter = space.parameters[i];
    std::vector<double> good_points;
    std::vector<double> other_points;
    for (std::size_t o = 0; o < sorted.size(); ++o) {
      (o < good ? good_points : other_points).push_back(unit_of(parameter, sorted[o]->setting[i]));
    }
    const double unit =
        parameter.kind == SearchedField::Kind::choice
            ? best_draw(Counts(good_points, count_of(parameter)), Counts(other_points, count_of(parameter)), random)
            : best_draw(Parzen(good_points), Parzen(other_points), random);
    setting.push_back(value_at(parameter, unit));
  }
  return setting;
}

}  // namespace convoy
