// The trunk on slaves: the master is a node of the plan's graph like any other, and carries what its node sends.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/node.hpp"
#include "master/cluster/roster.hpp"
#include "master/cluster/state_transfer.hpp"
#include "plan/rebalance.hpp"
#include "train/trunk.hpp"

namespace convoy {

class ClusterTrunk : public Trunk {
 public:
  /// plan.members are the roster's slaves in their order, then kMasterName where the master computes a share on its device
  /// `own`. `patience` is how long a slave that owes an answer may be silent in the first steps of a plan. `on_plan` is told
  /// of a new plan before its first step. Roster and device must outlive the trunk. Has every slave compile its shards and
  /// reach its peers; slaves drop what they were doing. Throws PeerLost, as do the other calls; the roster can then be used
  /// for another plan.
  ClusterTrunk(std::vector<Stage> stages, Plan plan, Roster& roster, Device* own, std::chrono::milliseconds patience,
               Rebalancing rebalancing = {}, std::function<void(const Plan&)> on_plan = {});

  void begin(const Tensor& images, const Pass& pass) override;
  std::optional<SampleRange> next_outputs() override;
  std::size_t output_count() const override { return outputs_of(stages_).size(); }
  const Tensor& output(std::size_t number) const override { return node_->output(number); }
  using Trunk::backward;
  void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) override;
  double gradient_squares() override;
  void update(const UpdateStep& step) override;
  void finish() override;
  std::vector<ShardState> snapshot() override;
  void begin_snapshot() override;
  std::optional<std::vector<ShardState>> take_snapshot() override;
  void load(const std::vector<ShardState>& states) override;
  std::vector<MemberTime> take_times() override;

  /// From the next step on another plan for the same members. Filters take their state along; those that stay where they
  /// are do not travel.
  void change_plan(const Plan& plan);
  /// The plan at hand.
  const Plan& plan() const { return plan_; }

 private:
  std::size_t slave_count() const { return roster_.slaves().size(); }
  bool is_slave(int node) const { return static_cast<std::size_t>(node) < slave_count(); }
  void send(std::size_t slave, const wire::Message& message);
  void send_all(const wire::Message& message);
  void carry(const Parcel& parcel);
  /// Every slave answers once with Done.
  void expect_all();
  /// Works and handles what slaves say, until `over`.
  void run_until(const std::function<bool()>& over);
  /// Until nobody owes anything and the step is done.
  void settle();
  void take(std::size_t slave, const wire::Envelope& envelope);
  void take_piece(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload);
  std::vector<std::size_t> awaited() const;
  std::chrono::milliseconds patience() const;
  template <class Call>
  void judged(std::size_t slave, const Call& call) const;
  [[noreturn]] void broke_protocol(std::size_t slave, const std::string& what) const;
  void execute(bool keep, const std::vector<wire::StateMove>& moves = {});
  void assign(bool keep, const std::vector<wire::StateMove>& moves);

  std::shared_ptr<ComingState> ask(std::size_t stage, int node, FilterRange filters);
  void give(int node, const FilterState& state);
  bool snapshot_complete() const;
  void count_own_seconds();
  void count_traffic();

  std::vector<Stage> stages_;
  Plan plan_;
  Roster& roster_;
  Device* own_;
  std::chrono::milliseconds patience_;
  double longest_ = 0.0;  ///< seconds of all passes of a stage, of any slave, in a step under the plan
  std::unique_ptr<Node> node_;
  bool ready_ = false;          ///< every member holds its shards
  std::string token_;           ///< of the plan
  std::vector<bool> assigned_;  ///< slaves that have heard of it: what others say is of the plan before
  std::uint64_t step_ = 0;
  bool training_ = false;                       ///< the step at hand
  int given_ = 0;                               ///< micro-batches whose outputs next_outputs() gave
  std::vector<std::optional<double>> squares_;  ///< of the step at hand, of each slave
  std::vector<int> owed_;                       ///< Done messages expected, for each slave
  std::vector<MemberTime> times_;
  std::vector<Traffic> traffic_;  ///< of each node in a training step of the plan
  Rebalancer rebalancer_;
  std::function<void(const Plan&)> on_plan_;
  std::string unreached_;  ///< for people
  wire::Deadline unreached_at_ = wire::Deadline::max();
  std::optional<StateTransfer> states_;                 ///< of the plan's slaves
  std::vector<std::shared_ptr<ComingState>> snapshot_;  ///< asked for, of all stages
};

}  // namespace convoy
