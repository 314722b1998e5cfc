// The trunk on slaves, in a star: the master sends each stage's input to the slaves that hold its shards and gathers
// their maps; frames that one slave sent go on to the others as they are. Partial input gradients are summed in the
// order of the shards, whatever the order they arrive in, so that the same plan gives the same bits.
//
// Memory: one set of the stages' maps (as shared frames), and at most kInitialCredit frames a slave of partial
// gradients.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/host_shard.hpp"
#include "master/roster.hpp"
#include "master/trunk.hpp"
#include "plan/plan.hpp"
#include "wire/stream.hpp"

namespace convoy {

class ClusterTrunk : public Trunk {
 public:
  /// plan.members are the roster's slaves in their order, then "master" when `own` (its device) is given. `patience` is
  /// how long a slave that is owed an answer may be silent. Roster and device must outlive the trunk. Has every slave
  /// compile its shards. Throws PeerLost, or Error naming the slave that cannot hold its shard.
  ClusterTrunk(std::vector<Stage> stages, Plan plan, Roster& roster, Device* own, std::chrono::milliseconds patience);

  const Tensor& forward(const Tensor& images, const Pass& pass) override;
  void backward(const Tensor& gradient) override;
  void update(const SgdStep& step) override;
  std::vector<ShardState> snapshot() override;
  void load(const std::vector<ShardState>& states) override;
  std::vector<MemberTime> take_times() override;

 private:
  /// A piece of a stage's input, and the member that computed it (none for the images).
  struct InputPiece {
    int origin = -1;
    wire::Envelope envelope;
  };
  struct StageRun {
    std::unique_ptr<HostShard> own;
    Tensor output;          ///< whole maps on the host: for the head, or for the master's own share of the next stage
    Tensor input_gradient;  ///< sum over the shards
  };
  using PieceHandler = std::function<void(std::size_t slave, const wire::Piece& piece, const wire::Payload& payload)>;
  using DoneHandler = std::function<void(std::size_t slave)>;

  std::size_t slave_count() const { return roster_.slaves().size(); }
  bool is_own(int member) const { return static_cast<std::size_t>(member) == slave_count(); }
  int batch() const { return plan_.batch; }
  void send(int member, const wire::Message& message);
  void send(int member, const std::vector<wire::Envelope>& pieces);
  /// Counts a task that member must answer with Done.
  void expect(int member);
  /// Handles answers until every expected Done is here.
  void collect(const PieceHandler& on_piece, const DoneHandler& on_done = {});
  std::vector<std::size_t> awaited() const;
  void grant(std::size_t slave);
  [[noreturn]] void broke_protocol(std::size_t slave, const std::string& what) const;

  void hold_shards(Device* own);
  std::vector<InputPiece> forward_stage(std::size_t s, const std::vector<InputPiece>& input, const Tensor& host_input,
                                        const Pass& pass);
  void backward_stage(std::size_t s, const Tensor& gradient);
  void sum_input_gradient(std::size_t s, const Tensor* own_part);

  std::vector<Stage> stages_;
  Plan plan_;
  Roster& roster_;
  std::chrono::milliseconds patience_;
  bool ready_ = false;  ///< every member holds its shards
  std::vector<StageRun> runs_;
  std::vector<int> owed_;    ///< Done messages expected, for each slave
  std::vector<int> credit_;  ///< frames that a slave may still send
  std::vector<MemberTime> times_;
};

}  // namespace convoy
