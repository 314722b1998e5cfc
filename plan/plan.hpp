// A plan: for every stage, who holds which filters. Pure data, made by a pure function, executed by the trunk
// executors.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/number_type.hpp"
#include "core/stage.hpp"

namespace convoy {

/// One shard of a stage and the member that holds it.
struct Assignment {
  int member = 0;  ///< index into Plan::members
  FilterRange filters;
  bool operator==(const Assignment&) const = default;
};

/// All shards of one stage, in ascending order of filters, covering them all. Members without filters are absent.
struct StagePlan {
  std::vector<Assignment> shards;
  /// Every member that needs the stage's maps computes them all itself, instead of having them sent: for stages that cost
  /// less to compute than to send. Backward stays split by the shards; after an update the weights are sent around. A
  /// replicated stage without weights has no shards: backward as well it is computed by whoever reads its maps, each from
  /// its own part of the gradient, which is right because such a stage is linear in that.
  bool replicated = false;
  bool operator==(const StagePlan&) const = default;
};

/// How maps and gradients travel between the members of a stage and those of the next.
enum class Exchange {
  star,  ///< through the master, which also sums the gradients
  ring,  ///< from slave to slave: every holder of filters sums the gradient of its own maps
  /// The scheme of Marques, Falcao and Alexandre (2018), for comparison: a star in which weights go out before every forward
  /// pass and come back after every update, and slaves compute the convolutions alone (plan/thesis_graph.hpp).
  thesis
};

/// What an exchange allows. Planner and runtime ask for this rather than for the exchange's name.
struct ExchangeTraits {
  bool micro_batches = true;          ///< the batch may travel in parts
  bool replicated_weights = true;     ///< a stage with weights may be replicated
  bool relayed_images = true;         ///< slaves may pass images on
  bool moving_shares = true;          ///< filters may move from member to member in the course of a run
  bool master_holds_weights = false;  ///< the master holds all weights and sends them out
  bool fused_stages = true;           ///< a shard computes its whole stage, not the convolution alone
  bool master_sums = true;            ///< parts of gradients go to the master
};
const ExchangeTraits& traits_of(Exchange exchange);

/// The name of the member that is the master's own device. No slave may have it.
inline constexpr const char* kMasterName = "master";

struct Plan {
  int batch = 0;
  std::vector<std::string> members;  ///< names of slaves; last, where the master computes a share itself, kMasterName
  std::vector<StagePlan> stages;     ///< one for each stage of the trunk
  Exchange exchange = Exchange::star;
  NumberType wire = NumberType::fp32;  ///< of maps and gradients that travel; int8: of gradients
  int micro_batches = 1;               ///< equal parts of the batch, of which one may travel while the next is computed
  bool relayed = false;  ///< images go from the master to the first slave, from that to the next, and so on
  bool operator==(const Plan&) const = default;
};

/// "ring", "bf16"; the second throw Error listing what there is.
std::string to_string(Exchange exchange);
std::string to_string(NumberType type);
Exchange exchange_from(const std::string& text);
NumberType number_type_from(const std::string& text);

/// Gives the plan another exchange, and takes back what that exchange does not allow: replicated stages with weights,
/// relayed images, micro-batches.
void set_exchange(Plan& plan, Exchange exchange);

/// All filters of a stage.
int filters_in(const StagePlan& stage);

/// The shards of one stage from the filter count of each member.
StagePlan stage_plan(const std::vector<int>& filters_by_member);

/// Throws Error where the exchange cannot compute such a trunk.
void expect_fits(Exchange exchange, const std::vector<Stage>& trunk);

/// Whether a stage without weights, between slaves, is better computed by whoever reads its maps than split: where what it
/// reads is there anyway, whole, for others that read it, or is less than what it makes.
bool better_replicated(const std::vector<Stage>& trunk, std::size_t stage);

/// Throws Error unless the plan fits the trunk: as many stages, filters covered once and in order, members that exist.
void validate(const Plan& plan, const std::vector<Stage>& trunk);

/// The plan of a run without slaves: one member holds everything.
Plan whole_plan(const std::vector<Stage>& trunk, int batch, const std::string& member);

/// Every stage split in proportion to `speeds` (any positive scale), by largest remainder: for shares that the user
/// names, and for tests.
Plan proportional_plan(const std::vector<Stage>& trunk, int batch, const std::vector<std::string>& members,
                       const std::vector<double>& speeds);

/// How maps travel and what is replicated, for people: "ring, bf16, micro-batches of 16".
std::string describe(const Plan& plan);

/// JSON as written to a run's plan.json and read by --plan.
std::string to_json(const Plan& plan);
/// Throws Error naming `file` and the field.
Plan plan_from_json(const std::string& text, const std::string& file);

}  // namespace convoy
