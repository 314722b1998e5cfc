// The trunk on slaves: the master is a node of the plan's graph like any other, and carries what its node sends.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/node.hpp"
#include "master/cluster/roster.hpp"
#include "plan/rebalance.hpp"
#include "train/trunk.hpp"
#include "wire/stream.hpp"

namespace convoy {

/// How shares follow what a run measures.
struct Rebalancing {
  std::vector<MemberProfile> profiles;      ///< of the plan's members; empty: the shares stay
  std::function<void(const Plan&)> notify;  ///< of a new plan, before its first step
  int first_steps = 10;                     ///< before shares may move; twice as many after each move
  double margin = 0.05;                     ///< of a step's time that a move must save
};

class ClusterTrunk : public Trunk {
 public:
  /// plan.members are the roster's slaves in their order, then "master" when `own` (its device) is given. `patience` is
  /// how long a slave that owes an answer may be silent in the first steps of a plan. Roster and device must outlive the trunk. Has every slave
  /// compile its shards and reach its peers; whatever they were at is dropped. Throws PeerLost, as do the
  /// other calls; the roster can then be used for another plan.
  ClusterTrunk(std::vector<Stage> stages, Plan plan, Roster& roster, Device* own, std::chrono::milliseconds patience,
               Rebalancing rebalancing = {});

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
  [[noreturn]] void broke_protocol(std::size_t slave, const std::string& what) const;
  void execute(bool keep, const std::vector<wire::StateMove>& moves = {});
  void assign(bool keep, const std::vector<wire::StateMove>& moves);

  /// State of some filters, which a slave may still be sending.
  struct Part {
    FilterState of;
    std::optional<wire::ValueReader> reader;
    bool complete() const { return !reader || reader->complete(); }
  };
  std::shared_ptr<Part> ask(std::size_t stage, int member, FilterRange filters);
  bool snapshot_complete() const;
  void give(int node, const FilterState& part);
  void offer(std::size_t slave);
  void take_wanted(std::size_t slave, const wire::Wanted& wanted);
  void count_own_seconds();
  void count_step();
  void rebalance();

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
  Rebalancing rebalancing_;
  MeasuredTimes measured_;  ///< sums since the last judgement
  int steps_measured_ = 0;
  int steps_to_judge_ = 0;
  std::string unreached_;  ///< for people
  wire::Deadline unreached_at_ = wire::Deadline::max();
  std::vector<std::deque<std::shared_ptr<Part>>> coming_;  ///< from each slave, in this order
  std::vector<std::deque<FilterState>> loads_;             ///< for each slave; the first has been offered
  std::vector<std::shared_ptr<Part>> snapshot_;            ///< asked for, of all stages
};

}  // namespace convoy
