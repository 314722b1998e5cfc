#include "master/jobs/tpe.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <variant>

#include "core/error.hpp"

namespace convoy {
namespace {

constexpr double kGoodPart = 0.15;  ///< the quantile of the paper
constexpr int kCandidates = 24;     ///< settings that are drawn from l(x)
constexpr int kExploring = 4;       ///< one in so many settings has choices at random
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

/// The densities of a parameter's values in the good observations and in the others.
template <class Density>
struct Densities {
  Density good;
  Density others;
};

/// Draws a point of a parameter from the density of the good ones, and adds the logarithm of l / g to `gain`.
template <class Density>
double draw_from(const Densities<Density>& densities, Random& random, double& gain) {
  const double x = densities.good.draw(random);
  gain += std::log(densities.good.at(x) / densities.others.at(x));
  return x;
}

using AnyDensities = std::variant<Densities<Parzen>, Densities<Counts>>;

AnyDensities densities_of(const SearchedField& parameter, const std::vector<double>& good,
                          const std::vector<double>& others) {
  if (parameter.kind == SearchedField::Kind::choice) {
    const long count = count_of(parameter);
    return Densities<Counts>{Counts(good, count), Counts(others, count)};
  }
  return Densities<Parzen>{Parzen(good), Parzen(others)};
}

}  // namespace

TrialSetting tpe_setting(const Space& space, const std::vector<Observation>& observations,
                         const std::vector<TrialSetting>& running, Random& random) {
  invariant(observations.size() >= 2, "there are good observations and others");
  std::vector<const Observation*> sorted;
  for (const Observation& each : observations) sorted.push_back(&each);
  std::ranges::stable_sort(sorted, {}, [](const Observation* each) { return each->cost; });
  const auto good = static_cast<std::size_t>(std::ceil(kGoodPart * static_cast<double>(sorted.size())));
  std::vector<AnyDensities> densities;
  for (std::size_t i = 0; i < space.parameters.size(); ++i) {
    std::vector<double> good_points;
    std::vector<double> other_points;
    for (std::size_t o = 0; o < sorted.size(); ++o) {
      (o < good ? good_points : other_points).push_back(unit_of(space.parameters[i], sorted[o]->setting[i]));
    }
    for (const TrialSetting& each : running) other_points.push_back(unit_of(space.parameters[i], each[i]));
    densities.push_back(densities_of(space.parameters[i], good_points, other_points));
  }
  const bool exploring = random.below(kExploring) == 0;
  std::vector<double> best;
  double best_gain = 0.0;
  for (int candidate = 0; candidate < kCandidates; ++candidate) {
    std::vector<double> points;
    double gain = 0.0;
    for (const AnyDensities& each : densities) {
      const bool at_random = exploring && std::holds_alternative<Densities<Counts>>(each);
      points.push_back(at_random ? static_cast<double>(random.uniform())
                                 : std::visit([&](const auto& of) { return draw_from(of, random, gain); }, each));
    }
    if (!best.empty() && gain <= best_gain) continue;
    best = std::move(points);
    best_gain = gain;
  }
  TrialSetting setting;
  for (std::size_t i = 0; i < best.size(); ++i) setting.push_back(value_at(space.parameters[i], best[i]));
  return setting;
}

}  // namespace convoy
