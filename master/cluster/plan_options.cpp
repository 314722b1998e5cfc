#include "master/cluster/plan_options.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/files.hpp"
#include "core/text.hpp"
#include "plan/calibration.hpp"
#include "wire/endpoint.hpp"

namespace convoy {
namespace {

constexpr const char* kThesis = "thesis";  ///< --plan's value for the exchange of that name, instead of a file

std::vector<double> parse_shares(const std::string& text, std::size_t members) {
  std::vector<double> shares;
  const char* place = text.data();
  const char* end = text.data() + text.size();
  while (place < end) {
    double share = 0.0;
    const auto [rest, error] = std::from_chars(place, end, share);
    if (error != std::errc() || !(share >= 0.0) || share > 1e9 || (rest != end && *rest != ',')) break;
    shares.push_back(share);
    place = rest == end ? end : rest + 1;
  }
  double sum = 0.0;
  for (const double share : shares) sum += share;
  if (place != end || shares.size() != members || !(sum > 0.0)) {
    fail(
        "--shares '{}': expected {} with commas between them, one for each slave and one for the master with "
        "--master-share, not all zero",
        printable(text, 100), members == 1 ? "1 number" : fmt::format("{} numbers", members));
  }
  return shares;
}

/// Reads the plan of an earlier run for this run's members, in their order.
Plan read_plan(const std::string& file, const std::vector<std::string>& members, const std::vector<Stage>& trunk,
               int batch) {
  Plan plan = plan_from_json(read_text(file), file);
  if (plan.members.size() != members.size()) {
    fail("{}: it is for {} members, this run has {}", file, plan.members.size(), members.size());
  }
  plan.members = members;
  if (std::exchange(plan.batch, batch) != batch && batch % plan.micro_batches == 0) {
    set_micro_batches(plan, plan.micro_batches);
  }
  validate(plan, trunk);
  return plan;
}

std::optional<Exchange> exchange_wish(const ClusterOptions& options) {
  if (options.plan == kThesis) return Exchange::thesis;
  if (!options.exchange.empty()) return exchange_from(options.exchange);
  if (options.verify > 0) return Exchange::star;
  return std::nullopt;
}

Layout layout_of(const ClusterOptions& options) {
  if (options.layout == "samples") return Layout::samples;
  return options.layout == "filters" ? Layout::filters : Layout::automatic;
}

/// Throws Error if --layout contradicts other options.
void expect_layout(const ClusterOptions& options) {
  if (options.layout.empty()) return;
  if (!options.plan.empty()) {
    fail("--plan {}: the plan says what members share; leave out --layout {}", options.plan, options.layout);
  }
}

/// Throws Error if slaves would send one another maps that the master cannot verify.
void expect_verifiable(const ClusterOptions& options, Exchange exchange) {
  if (options.verify == 0 || exchange == Exchange::star) return;
  fail(
      "--verify needs the exchange star, in which maps go through the master; leave out --verify, or take --exchange "
      "star "
      "instead of {}",
      to_string(exchange));
}

/// Returns the greatest divisor of the batch up to `wanted`.
int nearest_divisor(int batch, int wanted) {
  int divisor = std::min(batch, wanted);
  while (batch % divisor != 0) --divisor;
  return divisor;
}

int micro_batches_of(const ClusterOptions& options, int batch) {
  if (batch % options.micro_batch != 0) {
    fail("--micro-batch {}: the batch of {} is not divisible by it; take for example {}", options.micro_batch, batch,
         nearest_divisor(batch, options.micro_batch));
  }
  return batch / options.micro_batch;
}

}  // namespace

Wishes wishes_of(const ClusterOptions& options, int batch) {
  Wishes wishes{.exchange = exchange_wish(options), .objective = options.objective, .terms = options.terms};
  if (wishes.exchange == Exchange::thesis && (!options.exchange.empty() || options.micro_batch > 0)) {
    fail("--plan thesis: it has a way of its own to exchange maps; leave out --exchange and --micro-batch");
  }
  if (wishes.exchange) expect_verifiable(options, *wishes.exchange);
  if (!options.wire.empty()) wishes.wire = number_type_from(options.wire);
  wishes.layout = layout_of(options);
  if (options.micro_batch > 0) wishes.micro_batches = micro_batches_of(options, batch);
  return wishes;
}

void expect_possible(const ClusterOptions& options, const Cut& cut, int batch) {
  if (options.slaves == 0) return;
  if (options.least_slaves > options.slaves) {
    fail("--least-slaves {} is more than --slaves {}; the run could never begin", options.least_slaves, options.slaves);
  }
  if (const auto exchange = wishes_of(options, batch).exchange) expect_fits(*exchange, cut.trunk);
  expect_layout(options);
  wire::address_to_listen(options.listen);
  if (has_plan_file(options) && !options.shares.empty()) {
    fail("--plan {} and --shares both fix shares; leave one out", options.plan);
  }
  if (!options.power_from.empty()) calibration_from_json(read_text(options.power_from), options.power_from);
  if (options.objective != Objective::time && options.power_from.empty() && !(options.terms.assumed_watts > 0.0)) {
    fail(
        "--objective {}: the watts of slaves are not known before a run; give --power-from with the calibration.json "
        "of a "
        "run in which they had meters, or --assume-watts",
        to_string(options.objective));
  }
  if (!fixes_shares(options)) return;
  if (options.objective != Objective::time) {
    fail("--objective {} chooses a plan, but {} fixes it; leave out one of them", to_string(options.objective),
         options.shares.empty() ? "--plan" : "--shares");
  }
  std::vector<std::string> names;
  for (int slave = 1; slave <= options.slaves; ++slave) names.push_back(fmt::format("slave {}", slave));
  if (options.share) names.emplace_back(kMasterName);
  const FixedPlan possible(options, cut.trunk, batch, names);
}

bool has_plan_file(const ClusterOptions& options) { return !options.plan.empty() && options.plan != kThesis; }

bool fixes_shares(const ClusterOptions& options) { return !options.shares.empty() || has_plan_file(options); }

FixedPlan::FixedPlan(const ClusterOptions& options, const std::vector<Stage>& trunk, int batch,
                     const std::vector<std::string>& members) {
  whole_ = options.shares.empty()
               ? read_plan(options.plan, members, trunk, batch)
               : proportional_plan(trunk, batch, members, parse_shares(options.shares, members.size()));
  if (!options.wire.empty()) whole_.wire = number_type_from(options.wire);
  if (const auto exchange = exchange_wish(options)) set_exchange(whole_, *exchange);
  if (options.micro_batch > 0) set_micro_batches(whole_, micro_batches_of(options, batch));
  by_samples_ = layout_of(options) == Layout::samples || std::ranges::any_of(whole_.stages, has_several_rows);
  if (layout_of(options) == Layout::samples &&
      !cut_by_samples(whole_, trunk, trunk.size(), parse_shares(options.shares, members.size()))) {
    fail(
        "--layout samples: by --shares {}, one member would get all of the {} samples that travel together; leave out "
        "{}",
        options.shares, micro_batch_size(whole_), options.micro_batch > 0 ? "--micro-batch" : "--layout");
  }
  const std::vector<double> shares = work_shares(trunk, whole_);
  for (std::size_t m = 0; m < members.size(); ++m) shares_[members[m]] = shares[m];
}

std::set<std::string> FixedPlan::members() const { return {whole_.members.begin(), whole_.members.end()}; }

Plan FixedPlan::for_members(const std::vector<std::string>& members, const std::vector<Stage>& trunk) const {
  if (members == whole_.members) return whole_;
  std::vector<double> shares;
  double sum = 0.0;
  for (const std::string& member : members) {
    shares.push_back(shares_.at(member));
    sum += shares.back();
  }
  if (sum <= 0.0) shares.assign(members.size(), 1.0);
  Plan plan = proportional_plan(trunk, whole_.batch, members, shares);
  plan.wire = whole_.wire;
  set_micro_batches(plan, whole_.micro_batches);
  set_exchange(plan, whole_.exchange);
  // Where too few samples travel together for the members that are left, they share filters.
  if (by_samples_) cut_by_samples(plan, trunk, trunk.size(), shares);
  return plan;
}

}  // namespace convoy
