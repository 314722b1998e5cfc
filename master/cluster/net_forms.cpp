#include "master/cluster/net_forms.hpp"

#include <algorithm>
#include <utility>

#include "core/files.hpp"
#include "master/cluster/plan_options.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

/// Returns the form of a plan or a calibration of so many stages: those of the net, the slices, and their sum.
std::optional<DenseSlices> slices_among(std::size_t stages, const Cut& whole) {
  return slice_dense(whole, static_cast<int>(stages) - static_cast<int>(whole.trunk.size()) - 1);
}

}  // namespace

bool asks_for_slices(const ClusterOptions& options) {
  return options.dense == DenseBy::members || has_plan_file(options);
}

std::optional<DenseSlices> slices_of(const ClusterOptions& options, const Cut& whole) {
  if (options.dense == DenseBy::master) return std::nullopt;
  const bool asked = options.dense == DenseBy::members;
  if (!options.cache_maps.empty()) {
    if (asked) {
      fail(
          "--dense members cannot be combined with --cache-maps: the master keeps the maps, so it computes the dense "
          "layers; leave one of the options out");
    }
    return std::nullopt;
  }
  if (has_plan_file(options)) {
    if (!options.layout.empty() || !options.shares.empty()) return std::nullopt;  // refused by expect_possible()
    auto slices = slices_among(plan_from_json(read_text(options.plan), options.plan).stages.size(), whole);
    if (asked && !slices) {
      fail("--dense members: by the plan in {} the master computes the dense layers; leave out one of the two options",
           options.plan);
    }
    return slices;
  }
  const bool thesis = !options.plan.empty();
  const bool by_samples = options.layout == "samples";
  if (asked && thesis) {
    fail("--dense members: in the scheme of the thesis the master computes all dense layers; leave out --plan thesis");
  }
  if (!asked && (thesis || by_samples || !options.shares.empty())) return std::nullopt;
  const int members = options.slaves + (options.share ? 1 : 0);
  if (const std::string obstacle = obstacle_to_slices(whole, members); asked && !obstacle.empty()) {
    fail("--dense members: the first dense layer cannot be shared: {}; give --dense auto", obstacle);
  }
  return slice_dense(whole, slices_for(whole, members));
}

std::optional<DenseSlices> slices_of(const Calibration& calibration, const Cut& whole) {
  return calibration.sliced_head ? slices_among(calibration.stages.size(), whole) : std::nullopt;
}

FormChoice choose_form(const Cut& whole, const DenseSlices* slices, const Calibration& calibration,
                       const Wishes& wishes, DenseBy dense) {
  const auto choice_of = [&](const Cut& cut, const MasterProfile& master) {
    return choose_plan(cut.trunk, calibration.batch, calibration.members, wishes, master);
  };
  if (slices == nullptr || dense == DenseBy::master) return {choice_of(whole, calibration.master)};
  MasterProfile master = calibration.master;
  master.head = calibration.sliced_head.value();
  FormChoice shared{choice_of(slices->cut, master), true};
  if (dense == DenseBy::members) return shared;
  FormChoice best{choice_of(whole, calibration.master)};
  for (Alternative& each : shared.choice.alternatives) {
    each.text += kSharedDense;
    each.shares_dense = true;
  }
  const auto cost = [&](double seconds, std::optional<double> joules) {
    return cost_of(wishes.objective, seconds, joules);
  };
  const auto cost_of_choice = [&](const FormChoice& of) {
    return cost(of.choice.predicted.seconds, of.choice.energy.joules());
  };
  if (cost_of_choice(shared) <= kWorthwhile * cost_of_choice(best)) std::swap(best, shared);
  std::vector<Alternative>& all = best.choice.alternatives;
  all.insert(all.end(), shared.choice.alternatives.begin(), shared.choice.alternatives.end());
  std::ranges::stable_sort(all, {}, [&](const Alternative& each) { return cost(each.seconds, each.joules); });
  return best;
}

}  // namespace convoy
