// The trunk on slaves. The master runs one node of the plan's task graph itself, and carries messages between this node
// and the slaves.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "exchange/node.hpp"
#include "master/cluster/crew.hpp"
#include "master/cluster/energy_book.hpp"
#include "master/cluster/image_offers.hpp"
#include "master/cluster/state_transfer.hpp"
#include "master/cluster/verifier.hpp"
#include "plan/rebalance.hpp"
#include "train/trunk.hpp"
#include "wire/early_pieces.hpp"

namespace convoy {

class ClusterTrunk : public Trunk {
 public:
  /// Has every slave drop its current work, compile its shards and connect to its peers. plan.members are the crew's
  /// slaves in their order, followed by kMasterName if the master computes a share on its device `own`. `patience` is
  /// how long a slave that owes an answer may be silent in the first steps of a plan. `on_plan` is called with each new
  /// plan before its first step. Crew and device must outlive the trunk. The constructor and all other calls throw
  /// PeerLost; the crew can then be used for another plan.
  ClusterTrunk(std::vector<Stage> stages, Plan plan, Crew& crew, Device* own, std::chrono::milliseconds patience,
               Rebalancing rebalancing = {}, std::function<void(const Plan&)> on_plan = {});

  /// Has `verifier` compute some of the slaves' work again from now on. A slave whose work is wrong is lost: the call
  /// after the step throws PeerLost with the reason `wrong`. The verifier must outlive the trunk.
  void verify_with(Verifier& verifier);

  /// Has `book` take what slaves tell of their energy. It must outlive the trunk.
  void tell_energy_to(EnergyBook& book) { book_ = &book; }

  /// From now on, slaves that keep images are sent only those images that they lack. `bytes` counts the images; it must
  /// outlive the trunk.
  void offer_images(ImageBytes& bytes) { image_bytes_ = &bytes; }

  /// Gives the slaves the step before they have finished the one before it, so that none of them waits for another.
  void begin(const Images& images, const Pass& pass) override;
  std::optional<SampleRange> next_outputs() override;
  bool outputs_ready() const override { return node_->outputs_ready() > given_ || given_ == plan_.micro_batches; }
  std::size_t output_count() const override { return outputs_of(stages_).size(); }
  const Tensor& output(std::size_t number) const override { return node_->output(number); }
  using Trunk::backward;
  void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) override;
  double gradient_squares() override;
  void update(const UpdateStep& step) override;
  /// Waits until no slave owes an answer and the master's node has finished its step.
  void settle() override;
  bool settled() const override;
  bool poll() override;
  void wait() override;
  std::optional<Broken> broken() const override;
  std::vector<ShardState> snapshot() override;
  void begin_snapshot(bool moments) override;
  void begin_changes(const std::vector<ShardState>& from, bool moments) override;
  std::optional<std::vector<ShardState>> take_snapshot() override;
  void begin_gradients() override;
  void begin_load(const std::vector<ShardState>& states) override;
  void carry_states_in(NumberType type) override { states_type_ = type; }
  std::vector<MemberTime> take_times() override;

  /// Changes to another plan for the same members, from the next step on. The state of a filter moves to its new
  /// holder; the state of a filter that keeps its holder does not travel.
  void change_plan(const Plan& plan);
  /// The current plan.
  const Plan& plan() const { return plan_; }

 private:
  /// The first steps of a plan compile kernels and fill caches, so they may take long.
  static constexpr std::uint64_t kFirstSteps = 4;

  /// What a snapshot collects: the states, or their gradients or changes instead.
  struct Wish {
    bool gradients = false;
    const std::vector<ShardState>* since = nullptr;  ///< changes since these states
    bool moments = true;                             ///< of states and changes
  };

  /// A step as far as the answers to it must be understood.
  struct Given {
    bool counts = false;  ///< whether its seconds are those of training
    long update = 0;      ///< Pass::step of the gradients by which it updates
  };

  std::size_t slave_count() const { return crew_.slaves().size(); }
  bool is_slave(int node) const { return static_cast<std::size_t>(node) < slave_count(); }
  void send(std::size_t slave, const wire::Message& message);
  void send_all(const wire::Message& message);
  void carry(const Parcel& parcel);
  bool carry_offered(const Parcel& parcel, std::uint64_t step);
  void take_missing(std::size_t slave, const wire::Missing& missing);
  void count_images(std::size_t slave, std::uint64_t step, double bytes);
  /// Counts one more Done that every slave owes.
  void expect_all();
  /// Polls and waits until over() is true.
  void run_until(const std::function<bool()>& over);
  void send_step(const StepWork& work);
  Given given(std::uint64_t step) const { return steps_.contains(step) ? steps_.at(step) : Given{}; }
  void begin_own(const StepWork& work, const Pixels* images);
  void end_step();
  bool changes_count() const;
  void rebalance();
  void apply_update();
  void take(std::size_t slave, const wire::Envelope& envelope);
  void take_done(std::size_t slave, const wire::Done& done);
  void take_piece(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload);
  void take_early();
  void receive(int from, const wire::Piece& piece, const wire::Payload& payload);
  std::vector<std::size_t> awaited() const;
  std::chrono::milliseconds patience() const;
  std::chrono::milliseconds limit() const;
  [[noreturn]] void end_at_limit();
  void take_unreached(std::size_t slave, const wire::Unreached& missed);
  bool sends_to_slaves(std::size_t slave) const;
  bool through_master() const;
  template <class Call>
  void judged(std::size_t slave, const Call& call) const;
  [[noreturn]] void broke_protocol(std::size_t slave, const std::string& what) const;
  void execute(bool keep, const std::vector<wire::StateMove>& moves = {});
  void assign(bool keep, const std::vector<wire::StateMove>& moves);

  std::shared_ptr<ComingState> ask(std::size_t stage, int node, FilterRange filters, const Wish& wish);
  void collect(const Wish& wish);
  void give(int node, const FilterState& state, NumberType type = NumberType::fp32);
  bool snapshot_complete() const;
  void begin_verification(const Pass& pass);
  void end_verification();
  void count_own_seconds();

  std::vector<Stage> stages_;
  Plan plan_;
  Crew& crew_;
  Device* own_;
  std::chrono::milliseconds patience_;
  double longest_ = 0.0;  ///< the longest time, in seconds, that any slave computed one stage in a step of this plan
  std::unique_ptr<Node> node_;
  bool ready_ = false;          ///< whether every member has compiled its shards
  std::string token_;           ///< token of the plan
  std::vector<bool> assigned_;  ///< whether each slave has answered Assigned; older messages belong to the old plan
  std::uint64_t step_ = 0;      ///< the last step that the slaves were given
  bool ahead_ = false;          ///< whether the master's node sends images of step_ while it is in the step before
  std::uint64_t own_step_ = 0;  ///< the step of the master's node: step_, or the one before
  wire::EarlyPieces early_;     ///< Pieces of the step after own_step_
  std::optional<UpdateStep> update_;            ///< the update that the next step begins with
  long trained_ = 0;                            ///< Pass::step of the last training pass
  std::map<std::uint64_t, Given> steps_;        ///< the last few steps that the slaves were given, by number
  bool training_ = false;                       ///< whether the current step trains
  int given_ = 0;                               ///< micro-batches that next_outputs() has returned in the current step
  std::vector<std::optional<double>> squares_;  ///< Squares of each slave in the current step
  bool squares_due_ = false;                    ///< whether slaves with shards still have to send Squares
  std::map<std::uint32_t, long> broken_;  ///< by stage that slaves named in Done since the last load(), Broken::step
  std::vector<int> owed_;                 ///< number of Done messages expected from each slave
  std::vector<MemberTime> times_;
  Rebalancer rebalancer_;
  std::function<void(const Plan&)> on_plan_;
  std::chrono::duration<double> waited_{0};  ///< time in which there was nothing to do since the slaves were given work
  wire::Deadline idle_since_;                ///< until when waited_ counts
  wire::Clock::duration loud_{0};            ///< the part of waited_ since the link was last empty
  double longest_step_ = 0.0;                ///< the longest waited_ of a step of this plan, in seconds
  bool moving_ = false;                      ///< whether slaves send states to one another
  std::vector<bool> gave_up_;                ///< whether each slave has said Unreached
  std::string unreached_;  ///< which slaves cannot connect to which, as a text for people; empty if all can
  wire::Deadline unreached_at_ = wire::Deadline::max();  ///< when unreached_ ends the plan
  std::optional<StateTransfer> states_;                  ///< transfers between the master and the plan's slaves
  std::vector<std::shared_ptr<ComingState>> snapshot_;   ///< the states of the snapshot in progress
  NumberType states_type_ = NumberType::fp32;            ///< see carry_states_in()
  Wish collects_;                                        ///< the wish that snapshot_ fulfils
  ImageBytes* image_bytes_ = nullptr;                    ///< null if slaves are sent all images
  ImageOffers offers_;
  bool offering_ = false;                ///< whether the images of the send in progress were offered
  EnergyBook* book_ = nullptr;           ///< null if nobody asks for energy
  Verifier* verifier_ = nullptr;         ///< null without --verify
  std::shared_ptr<ComingState> before_;  ///< state of the verified tile before the step, while it arrives
};

}  // namespace convoy
