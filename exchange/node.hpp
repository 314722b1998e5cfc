// A member at work on a step: it computes its tasks of the plan's graph on a device, and says what is to be sent. It knows
// no network: whoever owns it carries the bytes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// Part of what a send of the graph carries: values from `first` on, in the order of NCHW, in the plan's number type
/// (weights, then biases, in fp32).
struct Parcel {
  int task = 0;
  int to = 0;
  std::size_t first = 0;
  std::vector<std::byte> bytes;
};

class Node {
 public:
  using Send = std::function<void(Parcel&&)>;

  /// Node `index` of the plan's graph. `device` computes its shards; a node without shards needs none. Compiles them; their
  /// state is zero. Throws Error where the device cannot hold them. `most_values`: of a parcel.
  Node(const Plan& plan, const std::vector<Stage>& trunk, int index, Device* device, Send send,
       std::size_t most_values = std::size_t{1} << 18U);
  ~Node();

  /// A step of training, or a forward pass alone, after the one before is finished. `images`, (batch, channels, height,
  /// width): on the master alone, which may change them afterwards.
  void begin(const Pass& pass, const Tensor* images);
  /// On the master: the trunk's output is here.
  bool output_ready() const { return output_ready_; }
  const Tensor& output() const;
  /// On the master: the gradient of the loss by output(). Its tasks behind the head wait for this.
  void give_gradient(const Tensor& gradient);
  /// Tasks that update wait for this.
  void allow_update(const SgdStep& step);

  /// Takes values of a send to this node, in their order. Throws Error where this step has no such send, or other values
  /// are due.
  void receive(int task, std::size_t first, std::span<const std::byte> bytes);
  /// Does the first task that is ready, if there is one.
  bool work();
  /// Nothing of the step is left to do or to come.
  bool finished() const { return left_ == 0; }

  /// The state of the node's own shard of a stage.
  ShardState state(std::size_t stage) const;
  /// Takes what the node holds of a whole stage's state.
  void set_state(std::size_t stage, const ShardState& whole);

 private:
  struct Piece;   ///< a compiled range of a stage's filters
  struct Slab;    ///< channels of a tensor
  struct Flight;  ///< a send that is coming in

  void compile(Device* device);
  void make_slabs();
  void make_ready(int index);
  void finish(int index);
  void release(int index);
  void forward(const Task& task);
  void backward_input(const Task& task);
  void add_up(const Task& task);
  void send(int index);
  void take_weights(const Task& task, std::span<const float> values);
  const Task& task(int index) const { return graph_->tasks[static_cast<std::size_t>(index)]; }
  SampleRange samples_of(const Task& task) const;
  std::size_t values_of(const Task& task) const;

  Plan plan_;
  std::vector<Stage> trunk_;
  int index_;
  Send send_;
  std::size_t most_values_;
  TaskGraph training_;
  TaskGraph testing_;
  std::vector<std::vector<int>> training_followers_;
  std::vector<std::vector<int>> testing_followers_;
  const TaskGraph* graph_ = nullptr;  ///< of the step at hand
  const std::vector<std::vector<int>>* followers_ = nullptr;

  std::vector<std::vector<Piece>> pieces_;  ///< by stage: the node's shard first, then what it computes besides
  std::map<int, Slab> maps_;                ///< inputs of stages; behind the last, the trunk's output
  std::map<int, Slab> gradients_;           ///< by those
  std::map<int, Tensor> parts_;             ///< the own shard's part of the gradient by a stage's input

  Pass pass_;
  std::optional<SgdStep> sgd_;
  bool output_ready_ = false;
  std::vector<std::size_t> missing_;  ///< of what each task waits for
  std::set<int> ready_;
  std::vector<int> waiting_updates_;
  std::map<int, Flight> flights_;
  std::size_t left_ = 0;
  AlignedVector<float> scratch_;
};

}  // namespace convoy
