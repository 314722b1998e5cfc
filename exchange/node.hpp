// A node of the plan's task graph. It runs the tasks of one member on a device, and calls its owner to send values to
// other nodes. It knows no network: its owner carries the bytes. Its parts do the work: the schedule says which task
// may begin, the shards compute, maps, sums and statistics keep values, and the outbox sends them. The node brings them
// together.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exchange/gradient_sums.hpp"
#include "exchange/host_maps.hpp"
#include "exchange/node_shards.hpp"
#include "exchange/norm_statistics.hpp"
#include "exchange/outbox.hpp"
#include "exchange/task_schedule.hpp"
#include "exchange/weight_sums.hpp"

namespace convoy {

/// The state of some filters of a stage.
struct FilterState {
  std::size_t stage = 0;
  FilterRange filters;
  ShardState state;
};

class Node {
 public:
  /// Makes node `index` of the plan's graph and compiles its shards on `device`, with a state of zeros. A node without
  /// shards needs no device. A parcel has at most `most_values` values. Throws Error if the device cannot hold the
  /// shards.
  Node(const Plan& plan, const std::vector<Stage>& trunk, int index, Device* device, Carrier carrier,
       std::size_t most_values = std::size_t{1} << 18U);
  Node(const Node&) = delete;  // its parts refer to one another
  Node& operator=(const Node&) = delete;

  /// Begins a step. The step before must be finished. An update needs a training pass since the last update. The pixels
  /// of a pass's images, which work.scales normalise, are given to the master's node only, and are copied.
  void begin(const StepWork& work, const Pixels* images);
  /// On the master's node, before begin() with these images and a training pass: sends them, so that they travel while
  /// the node is still in the backward pass of the step before. Does nothing where that step is no training pass.
  void send_ahead(const Pixels& images);
  /// On the master's node: the number of micro-batches, counted from the first, whose outputs have arrived. In testing
  /// only the output of the main head counts.
  int outputs_ready() const { return schedule_.heads_ready(); }
  /// The maps of outputs_of(trunk)[number].
  const Tensor& output(std::size_t number) const;
  /// The maps and images that the node has received or computed in the current step.
  const HostMaps& maps() const { return host_; }
  /// On the master's node: takes the gradients of the loss with respect to all outputs, for one micro-batch, and starts
  /// its backward tasks.
  void give_gradients(const std::vector<const Tensor*>& gradients, int micro_batch);
  /// Whether all gradients of the filters that the node owns are known in a training pass.
  bool gradients_ready() const { return updates_ && work_.trains() && schedule_.gradients_ready(); }
  /// Whether all gradients of the filters of a stage that the node owns are known, in or after a training pass.
  bool gradients_known(std::size_t stage) const;
  /// The sum of the squares of all gradients of the filters that the node owns.
  double gradient_squares() const;
  /// The stages whose own shard an update left with values that are not finite, as far as the device has finished.
  std::vector<std::uint32_t> broken_stages() const;

  /// Takes the next values of a send task from node `from`. Throws Error if this step has no such task or other values
  /// are due.
  void receive(int from, int task, std::size_t first, const Bytes& bytes);
  /// A task of the current step.
  const Task& task(int index) const { return schedule_.task(index); }
  /// The send of whole images from node `from` to this one with this index, in the current step or with `next` in the
  /// training step after it. Null if there is none, or if its values have begun to arrive.
  const Task* images_due(int from, int index, bool next) const;
  /// Takes a grant from the master: one more parcel with a part of a gradient may be sent.
  void grant() { finish_all(outbox_.take_credit()); }
  /// Runs the first ready task. Returns false if no task is ready.
  bool work();
  /// The number of tasks of the step that this node still has to do, to send or to receive.
  std::size_t left() const { return schedule_.left(); }
  /// Whether no task is ready, so that the node can do nothing before more values arrive.
  bool waits() const { return !schedule_.any_ready(); }
  /// The sender of the first values, in the order of the graph, that have not all arrived here. Nothing if all have
  /// arrived.
  std::optional<int> awaited_sender() const { return schedule_.awaited_sender(); }
  /// Whether the step has nothing left to compute, send or receive.
  bool finished() const { return schedule_.left() == 0; }

  /// The state of filters of a stage that the node owns.
  ShardState state(std::size_t stage, FilterRange filters) const {
    return shards_.state(static_cast<int>(stage), filters);
  }
  /// The gradients of filters of a stage that the node owns, in the form of gradient_state(), once they are known.
  ShardState gradients(std::size_t stage, FilterRange filters) const;
  /// Sets the state of filters of a stage. Ignores filters that the node does not hold.
  void set_state(std::size_t stage, FilterRange filters, const ShardState& state);
  /// The states of all filters that the node updates itself (updated_filters).
  std::vector<FilterState> updated_states() const;
  /// Seconds that the device computed since the last call, by stage.
  std::vector<double> take_seconds() { return std::exchange(seconds_, std::vector<double>(trunk().size(), 0.0)); }

  /// The task graph of a training step, its update included.
  const TaskGraph& graph() const { return plan_.training; }
  const std::vector<Stage>& trunk() const { return plan_.trunk; }
  /// The number of bytes that other nodes send to this node in a training step.
  std::size_t bytes_due() const;
  /// own_filters() and held_filters() of this node; empty for an index beyond the last stage.
  FilterRange own(std::size_t stage) const;
  FilterRange held(std::size_t stage) const;

 private:
  bool goes_ahead(const Task& task) const;
  void make_ready(int index);
  void finish(int index);
  void finish_all(const std::vector<int>& tasks);
  void run(const Task& task);
  void update(const Task& task);
  void encode(const Task& sent, std::size_t first, std::size_t count, std::byte* to);
  std::vector<std::span<const float>> places_to_send(const Task& sent, bool first);
  void copy_weights(const Task& sent);
  std::size_t expect_due(int from, int task, std::size_t first, const Bytes& bytes) const;
  void take_part(int task, const Bytes& bytes);
  void take_whole(int task);
  void take_weights(int task);
  bool sends_weights() const { return thesis_ != nullptr && thesis_->holds_weights(); }

  NodePlan plan_;
  std::unique_ptr<ThesisNode> thesis_;  ///< null in exchanges other than the thesis'
  TaskSchedule schedule_;
  Flights flights_;
  HostMaps host_;
  NodeShards shards_;
  GradientSums sums_;
  WeightSums weight_sums_;
  NormStatistics statistics_;
  Outbox outbox_;
  bool updates_;  ///< whether the node updates filters

  StepWork work_;
  Pass pass_;                     ///< the step's pass, or that of the step before where it has none
  bool sent_ahead_ = false;       ///< whether send_ahead() has sent the images of the next step
  std::vector<double> seconds_;   ///< computing time, by stage
  AlignedVector<float> to_send_;  ///< parameters or statistics of the send task in progress
  AlignedVector<float> scratch_;
};

}  // namespace convoy
