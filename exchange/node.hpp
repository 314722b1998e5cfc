// A member at work on a step: it computes its tasks of the plan's graph on a device, and says what is to be sent. It knows
// no network: whoever owns it carries the bytes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "exchange/slab.hpp"
#include "exchange/thesis_node.hpp"
#include "kernels/device.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// Bytes, and what keeps them where they are.
struct Bytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> values;
};

/// Part of what a send of the graph carries: values from `first` on, in the order of NCHW, in the plan's number type
/// (weights, then biases, in fp32). Several parcels may share their bytes.
struct Parcel {
  int task = 0;
  int to = 0;
  std::size_t first = 0;
  Bytes bytes;
};

/// Parcels with parts of gradients that a slave may send the master in a star before the first grant; each grant is for
/// one more. So the master holds a bounded number of what it cannot add up yet, few or many as the slaves may be; and a
/// slave, which takes grants between its tasks, does not run out of them in a longer one.
int initial_credit(const Plan& plan);

/// The state of some filters of a stage.
struct FilterState {
  std::size_t stage = 0;
  FilterRange filters;
  ShardState state;
};

/// How a node reaches the others.
struct Carrier {
  std::function<void(Parcel&&)> send;
  /// Node `to` may send one more part of a gradient.
  std::function<void(int to)> grant;
};

class Node {
 public:
  /// Node `index` of the plan's graph. `device` computes its shards; a node without shards needs none. Compiles them; their
  /// state is zero. Throws Error where the device cannot hold them. `most_values`: of a parcel.
  Node(const Plan& plan, const std::vector<Stage>& trunk, int index, Device* device, Carrier carrier,
       std::size_t most_values = std::size_t{1} << 18U);
  ~Node();

  /// A step of training, or a forward pass alone, after the one before is finished. `images`, (batch, channels, height,
  /// width): on the master alone, which may change them afterwards.
  void begin(const Pass& pass, const Tensor* images);
  /// On the master: the micro-batches, from the first on, whose outputs of the trunk are here, in a test those of the main
  /// head.
  int outputs_ready() const;
  /// One of outputs_of(trunk).
  const Tensor& output(std::size_t number) const;
  /// On the master: the gradients of the loss by all outputs, of a micro-batch. Its tasks behind the head wait for this.
  void give_gradients(const std::vector<const Tensor*>& gradients, int micro_batch);
  /// All gradients of the node's shards are there, and the update waits.
  bool gradients_ready() const { return !waiting_updates_.empty(); }
  /// The sum of their squares.
  double gradient_squares() const;
  /// Tasks that update wait for this.
  void allow_update(const UpdateStep& step);

  /// Takes values that node `from` sends, in their order. Throws Error where this step has no such send, or other values
  /// are due.
  void receive(int from, int task, std::size_t first, const Bytes& bytes);
  /// The master has taken a part of a gradient.
  void grant();
  /// Does the first task that is ready, if there is one.
  bool work();
  /// Tasks of the step that this node still has to do, to send or to receive.
  std::size_t left() const { return left_; }
  /// Whether there is no task that the node could do before more arrives.
  bool waits() const { return ready_.empty(); }
  /// The node that sends the first values, in the order of the graph, that are still to arrive here; nothing if all have
  /// arrived.
  std::optional<int> awaited_sender() const;
  /// Nothing of the step is left to do or to come; a training step ends with an update.
  bool finished() const { return left_ == 0 && (!pass_.training || update_.has_value()); }

  /// The state of filters of the node's own shard of a stage.
  ShardState state(std::size_t stage, FilterRange filters) const;
  /// Takes the state of filters of a stage; what of them it does not hold is left out.
  void set_state(std::size_t stage, FilterRange filters, const ShardState& state);
  /// Of all its own shards.
  std::vector<FilterState> own_states() const;
  /// Seconds that the device computed since the last call, by stage.
  std::vector<double> take_seconds() { return std::exchange(seconds_, std::vector<double>(trunk_.size(), 0.0)); }

  /// Of the training step.
  const TaskGraph& graph() const { return training_; }
  const std::vector<Stage>& trunk() const { return trunk_; }
  /// Bytes that others send it in a step of training.
  std::size_t bytes_due() const;
  /// own_filters() and held_filters() of the node; empty for stages that there are not.
  FilterRange own(std::size_t stage) const;
  FilterRange held(std::size_t stage) const;

 private:
  struct Piece;   ///< a compiled range of a stage's filters
  struct Input;   ///< what stages read, on the device
  struct Flight;  ///< a send that is coming in

  void compile(Device* device);
  void compile(Device& device, std::size_t stage, FilterRange filters);
  void make_slabs();
  void make_ready(int index);
  void finish(int index);
  void release(int index);
  void forward(const Task& task);
  void write_inputs(const Task& task);
  std::span<const float> gather(const std::vector<Read>& reads, std::size_t number, FilterRange joined,
                                SampleRange samples, std::size_t map);
  void backward_input(const Task& task);
  void add_to_parts(const Task& task, const Piece& piece, std::size_t number, const DeviceTensor& gradient);
  void update();
  void add_own_part(const Task& sum, FilterRange channels, bool first, std::size_t begin, std::size_t count);
  void add(const Task& sum, FilterRange channels, bool first, std::size_t begin, NumberType type, const Bytes& bytes);
  FilterRange channels_of_part(const Task& sum, int part) const;
  std::vector<int> add_up(int sum);
  void send(int index);
  void send_parts();
  std::size_t send_some(int index, std::size_t first, std::size_t most);
  Bytes encoded(int index, std::size_t first, std::size_t count);
  bool sends_weights() const { return thesis_ != nullptr && thesis_->holds_weights(); }
  Slab& made(int stage);
  Slab& gradient_by_made(int stage);
  bool everywhere(int stage) const { return plan_.stages[static_cast<std::size_t>(stage)].shards.empty(); }
  Slab& slab_of(const Task& sent);
  void take_weights_to_send(const Task& sent);
  Bytes as_kept(const Task& sent, const Bytes& bytes) const;
  void place(const Task& sent, std::size_t first, const Bytes& bytes);
  void take_weights(const Task& task, std::span<const float> values);
  const Task& task(int index) const { return graph_->tasks[static_cast<std::size_t>(index)]; }
  SampleRange samples_of(const Task& task) const;
  std::size_t values_of(const Task& sent) const;
  std::size_t values_in(FilterRange channels, const Task& sum) const;

  Plan plan_;
  std::vector<Stage> trunk_;
  int index_;
  Carrier carrier_;
  std::size_t most_values_;
  TaskGraph training_;
  TaskGraph testing_;
  std::vector<std::vector<int>> training_followers_;
  std::vector<std::vector<int>> testing_followers_;
  const TaskGraph* graph_ = nullptr;  ///< of the step at hand
  const std::vector<std::vector<int>>* followers_ = nullptr;

  std::vector<int> outputs_;
  std::vector<std::vector<Piece>> pieces_;  ///< by stage: the node's shard first, then what it computes besides
  std::vector<Input> inputs_;
  std::vector<std::size_t> input_of_;   ///< by stage, of inputs_
  std::map<int, Slab> maps_;            ///< of stages, and the images
  std::map<int, Slab> gradients_;       ///< by those
  std::map<int, Slab> parts_;           ///< the node's parts of those
  std::map<int, int> first_part_;       ///< of each, the stage that writes it; the others add to it
  std::unique_ptr<ThesisNode> thesis_;  ///< null in other exchanges

  Pass pass_;
  std::optional<UpdateStep> update_;
  std::vector<int> heads_;            ///< tasks, by micro-batch
  std::vector<std::size_t> missing_;  ///< of what each task waits for
  std::vector<bool> done_;
  std::set<int> ready_;
  std::vector<int> waiting_updates_;
  std::size_t left_ = 0;
  std::vector<double> seconds_;  ///< computed, by stage

  std::map<int, Flight> flights_;
  std::map<int, std::vector<std::size_t>> added_;  ///< of each sum: values of each part that are in it
  std::deque<int> parts_to_send_;                  ///< in a star, to the master, in the graph's order
  std::size_t part_sent_ = 0;                      ///< values of the first of them
  int credit_;
  std::vector<Parcel> shared_;  ///< of the last send: those of the same values to others share its bytes
  AlignedVector<float> scratch_;
  AlignedVector<float> weights_to_send_;  ///< of the task at hand
};

}  // namespace convoy
