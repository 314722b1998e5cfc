// A plan assigns the filters of every stage to members. It is pure data, computed by a pure function and executed by
// the nodes of a run.
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

/// A run of the samples of every micro-batch, and the shards that compute it: all filters of the stage, in ascending
/// order and without gaps. Members without filters are absent.
struct Row {
  SampleRange samples;  ///< of each micro-batch, counted from its first sample
  std::vector<Assignment> shards;
  bool operator==(const Row&) const = default;
};

/// The part of a stage that one member computes: filters, and samples of each micro-batch.
struct Tile {
  int member = 0;
  FilterRange filters;
  SampleRange samples;
  Box box() const { return {filters, samples}; }
  bool operator==(const Tile&) const = default;
};

/// The members that compute one stage. A stage with one row is cut along filters. A stage with several rows is cut
/// along samples, and along filters too where rows have several shards. A member has at most one shard in all rows.
struct StagePlan {
  /// Rows cover all samples of a micro-batch in ascending order, without gaps. A stage without rows is computed by
  /// every member that reads its maps.
  std::vector<Row> rows;
  /// Where a stage with weights has several rows, several members hold the weights of a filter. One of them owns the
  /// filter: it adds up the gradients of all rows and sends the other holders the sum, by which each updates its own
  /// weights (takes_sums). Owners cover all filters in ascending order. With one row, `owners` may be empty: each
  /// member owns its shard.
  std::vector<Assignment> owners;
  /// Every member that needs the stage's maps computes all of them itself instead of receiving them, which suits stages
  /// that are cheaper to compute than to send. The backward pass is still split by the shards, and after an update the
  /// weights are sent to all members. A replicated stage without weights has no rows: each member that reads its maps
  /// also computes it backward, each from its own part of the gradient. This is correct because such a stage's backward
  /// pass is linear in the gradient.
  bool replicated = false;
  bool operator==(const StagePlan&) const = default;
};

/// Returns the plan of a stage that is cut along filters alone. `samples` are those of a micro-batch.
StagePlan one_row(std::vector<Assignment> shards, int samples);
/// Returns whether every member that reads the stage's maps computes it, so that no member has a tile of its own.
bool everywhere(const StagePlan& stage);
/// Returns whether the stage is cut along samples.
bool has_several_rows(const StagePlan& stage);
/// Returns whether the stage is cut along samples, and no row along filters.
bool cut_by_samples_alone(const StagePlan& stage);
/// Returns all tiles of a stage, row after row.
std::vector<Tile> tiles_of(const StagePlan& stage);
/// Returns a member's tile of a stage; its box is empty where the member has none.
Tile tile_of(const StagePlan& stage, int member);
/// Returns the owner of each filter; none where the stage has several rows and no weights.
const std::vector<Assignment>& owners_of(const StagePlan& stage);

/// Along which axis the planner cuts stages.
enum class Layout {
  automatic,  ///< whichever is faster
  filters,
  samples
};

/// How maps and gradients travel between the members of one stage and the members of the next.
enum class Exchange {
  star,  ///< through the master, which also sums the gradients
  ring,  ///< from slave to slave; every holder of filters sums the gradient of its own maps
  /// The scheme of Marques, Falcao and Alexandre (2018), for comparison: a star in which weights go out before every
  /// forward pass and come back after every update, and slaves compute only the convolutions (plan/thesis_graph.hpp).
  thesis
};

/// The connection that values take between two slaves. Those of one lane do not wait for those of the other.
enum class Lane {
  prompt,  ///< values that computations wait for: maps, their gradients, statistics
  bulk     ///< weights and their gradients, for which there is time until the stage's next forward pass
};

/// The abilities of an exchange. Planner and runtime ask for these instead of the exchange's name.
struct ExchangeTraits {
  bool micro_batches = true;          ///< the batch may travel in parts
  bool replicated_weights = true;     ///< a stage with weights may be replicated
  bool relayed_images = true;         ///< slaves may pass images on
  bool rows = true;                   ///< a stage may be cut along samples
  bool moving_shares = true;          ///< filters may move from member to member in the course of a run
  bool master_holds_weights = false;  ///< the master holds all weights and sends them out
  bool fused_stages = true;           ///< a shard computes its whole stage, not only the convolution
  bool master_sums = true;            ///< parts of gradients go to the master
};
/// Returns the abilities of an exchange.
const ExchangeTraits& traits_of(Exchange exchange);

/// The name of the member that is the master's own device. No slave may have it. Plans, messages and files know this
/// member by its name alone; is_master(), has_master() and is_master_alone() are the only code that compares it.
inline constexpr const char* kMasterName = "master";
/// Returns whether the name is that of the master's own device.
bool is_master(const std::string& member);

/// Which member holds which filters of every stage, and how maps and gradients travel.
struct Plan {
  int batch = 0;
  std::vector<std::string> members;  ///< names of the slaves; the master comes last where it computes a share
  std::vector<StagePlan> stages;     ///< one for each stage of the trunk
  Exchange exchange = Exchange::star;
  /// Number type of maps and gradients in transit; int8: of gradients, and bf16 for maps.
  NumberType wire = NumberType::fp32;
  int micro_batches = 1;  ///< equal parts of the batch; one may travel while the next is computed
  bool relayed = false;   ///< the master sends images to the first slave, which passes them to the second, and so on
  /// Number of last stages whose owners send the sums of gradients as soon as they have them. The sums of other stages
  /// leave when the next step begins. A backward pass begins with the last stages, so their sums fill the links while
  /// earlier stages are computed.
  int early_sums = 0;
  /// Members, ascending, whose devices do not update weights to the same bits as others (devices/same_bits.hpp). They
  /// are sent the owners' weights, and send others the weights of filters that they own.
  std::vector<int> unequal = {};
  bool operator==(const Plan&) const = default;
};

/// Returns whether the master computes a share of the plan; it is the last member then.
bool has_master(const Plan& plan);
/// Returns whether the master computes all of the plan.
bool is_master_alone(const Plan& plan);

/// Names such as "ring" and "bf16". The functions from text throw Error listing the known names.
std::string to_string(Exchange exchange);
std::string to_string(NumberType type);
Exchange exchange_from(const std::string& text);
NumberType number_type_from(const std::string& text);

/// Returns the number of samples of a micro-batch.
int micro_batch_size(const Plan& plan);

/// Sets the number of micro-batches. Rows keep their shares of the samples, as far as whole samples allow. Throws Error
/// where a row would be left without samples.
void set_micro_batches(Plan& plan, int micro_batches);

/// Returns the plan of a stage that is cut along samples alone: each member's samples of a micro-batch, and owners in
/// proportion to the speeds. Members without samples have no row.
StagePlan rows_of(const Stage& stage, const std::vector<int>& samples, const std::vector<double>& speeds);

/// Cuts the first `stages` stages along samples, in proportion to the members' speeds, and gives them owners in the
/// same proportion. Stages that every member computes stay as they are. Returns false, and changes nothing, where one
/// member would get all samples of a micro-batch.
bool cut_by_samples(Plan& plan, const std::vector<Stage>& trunk, std::size_t stages, std::vector<double> speeds);

/// Sets the exchange and removes what it does not allow: replicated stages with weights, relayed images, micro-batches.
void set_exchange(Plan& plan, Exchange exchange);

/// Returns whether `holder` updates the filters that `owner` owns by the sum of their gradients, which the owner sends.
/// Otherwise the owner sends it the updated weights.
bool takes_sums(const Plan& plan, int owner, int holder);

/// Returns whether a member has a tile of any stage.
bool has_tiles(const Plan& plan, int member);

/// Returns the number of filters of a stage; 0 where it has no rows.
int filters_in(const StagePlan& stage);

/// Returns the plan of one stage with one row, from the filter count of each member. `samples` are those of a
/// micro-batch.
StagePlan stage_plan(const std::vector<int>& filters_by_member, int samples);

/// Returns counts that add up to `total` in proportion to `weights`, by the largest-remainder method; ties go to the
/// earlier count.
std::vector<int> apportion(int total, const std::vector<double>& weights);

/// Throws Error where the exchange cannot compute such a trunk.
void expect_fits(Exchange exchange, const std::vector<Stage>& trunk);

/// Returns whether a stage without weights, between slaves, is better computed by every member that reads its maps than
/// split: where its inputs are present anyway, whole, for other stages that read them, or are smaller than its output.
bool better_replicated(const std::vector<Stage>& trunk, std::size_t stage);

/// Throws Error unless the plan fits the trunk: as many stages, all samples and filters assigned once and in order,
/// existing members, owners that hold their filters.
void validate(const Plan& plan, const std::vector<Stage>& trunk);

/// Returns the plan of a run without slaves, in which one member holds everything.
Plan whole_plan(const std::vector<Stage>& trunk, int batch, const std::string& member);

/// Returns a plan with every stage split in proportion to `speeds` (any positive scale) by the largest-remainder
/// method. It serves shares that the user names, and tests.
Plan proportional_plan(const std::vector<Stage>& trunk, int batch, const std::vector<std::string>& members,
                       const std::vector<double>& speeds);

/// Returns the share of the convolution work (by FLOPs) that each member has, as a fraction.
std::vector<double> work_shares(const std::vector<Stage>& stages, const Plan& plan);

/// Describes for people how maps travel and what is replicated: "ring, bf16, micro-batches of 16".
std::string describe(const Plan& plan);

/// Returns the JSON that a run writes to its plan.json, which --plan reads. A stage in an older file has "shards"
/// instead of "rows": one row with all samples.
std::string to_json(const Plan& plan);
/// Reads a plan. Throws Error naming `file` and the field.
Plan plan_from_json(const std::string& text, const std::string& file);

}  // namespace convoy
