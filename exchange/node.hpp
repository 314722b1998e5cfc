// A node of the plan's task graph. It runs the tasks of one member on a device, and calls its owner to send values to
// other nodes. It knows no network: its owner carries the bytes.
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
#include "plan/residence.hpp"
#include "plan/task_graph.hpp"

namespace convoy {

/// Bytes in memory that `owner` keeps alive.
struct Bytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> values;
};

/// Some of the values of a send task, from index `first` on. Images are pixels, maps and gradients are in the plan's number
/// type, both in NCHW order; parameters are in fp32, one after another. Several parcels may share their bytes.
struct Parcel {
  int task = 0;           ///< index of the send task in the graph
  int to = 0;             ///< node that receives the parcel
  std::size_t first = 0;  ///< index of the first value
  Bytes bytes;
};

/// The initial credit: how many parcels with parts of gradients a slave may send to the master in a star before the
/// first grant. Each grant allows one more. The credit bounds the parts that the master stores before it can add them,
/// for any number of slaves. It is large enough that a slave, which handles grants between its tasks, does not run out
/// of it during a long task.
int initial_credit(const Plan& plan);

/// The state of some filters of a stage.
struct FilterState {
  std::size_t stage = 0;
  FilterRange filters;
  ShardState state;
};

/// The functions through which a node sends to other nodes.
struct Carrier {
  std::function<void(Parcel&&)> send;
  /// Allows node `to` to send one more parcel with a part of a gradient.
  std::function<void(int to)> grant;
};

class Node {
 public:
  /// Makes node `index` of the plan's graph and compiles its shards on `device`, with a state of zeros. A node without
  /// shards needs no device. A parcel has at most `most_values` values. Throws Error if the device cannot hold the
  /// shards.
  Node(const Plan& plan, const std::vector<Stage>& trunk, int index, Device* device, Carrier carrier,
       std::size_t most_values = std::size_t{1} << 18U);
  ~Node();

  /// Begins a step. The step before must be finished. An update needs a training pass since the last update. The pixels of
  /// a pass's images, which work.scales normalise, are given to the master's node only, and are copied.
  void begin(const StepWork& work, const Pixels* images);
  /// On the master's node, before begin() with these images and a training pass: sends them, so that they travel while
  /// the node is still in the backward pass of the step before. Does nothing where that step is no training pass.
  void send_ahead(const Pixels& images);
  /// On the master's node: the number of micro-batches, counted from the first, whose outputs have arrived. In testing
  /// only the output of the main head counts.
  int outputs_ready() const;
  /// The maps of outputs_of(trunk)[number].
  const Tensor& output(std::size_t number) const;
  /// The node's slab of a stage's maps, or of the normalised images for Source::kImages; null if it has none. It holds what the node
  /// has received or computed in the current step.
  const Slab* maps(int stage) const { return maps_.contains(stage) ? &maps_.at(stage) : nullptr; }
  /// On the master's node: takes the gradients of the loss with respect to all outputs, for one micro-batch, and starts
  /// its backward tasks.
  void give_gradients(const std::vector<const Tensor*>& gradients, int micro_batch);
  /// Whether all gradients of the filters that the node owns are known in a training pass.
  bool gradients_ready() const { return updates_ && work_.trains() && gradients_left_ == 0; }
  /// The sum of the squares of all gradients of the filters that the node owns.
  double gradient_squares() const;
  /// The stages whose own shard an update left with values that are not finite, as far as the device has finished.
  std::vector<std::uint32_t> broken_stages() const;

  /// Takes the next values of a send task from node `from`. Throws Error if this step has no such task or other values
  /// are due.
  void receive(int from, int task, std::size_t first, const Bytes& bytes);
  /// Takes a grant from the master: one more parcel with a part of a gradient may be sent.
  void grant();
  /// Runs the first ready task. Returns false if no task is ready.
  bool work();
  /// The number of tasks of the step that this node still has to do, to send or to receive.
  std::size_t left() const { return left_; }
  /// Whether no task is ready, so that the node can do nothing before more values arrive.
  bool waits() const { return ready_.empty(); }
  /// The sender of the first values, in the order of the graph, that have not all arrived here. Nothing if all have arrived.
  std::optional<int> awaited_sender() const;
  /// Whether the step has nothing left to compute, send or receive.
  bool finished() const { return left_ == 0; }

  /// The state of filters of a stage that the node owns.
  ShardState state(std::size_t stage, FilterRange filters) const;
  /// The gradients of filters of a stage that the node owns, in the form of gradient_state(), after a training step.
  ShardState gradients(std::size_t stage, FilterRange filters) const;
  /// Sets the state of filters of a stage. Ignores filters that the node does not hold.
  void set_state(std::size_t stage, FilterRange filters, const ShardState& state);
  /// The states of all filters that the node owns.
  std::vector<FilterState> own_states() const;
  /// Seconds that the device computed since the last call, by stage.
  std::vector<double> take_seconds() { return std::exchange(seconds_, std::vector<double>(trunk_.size(), 0.0)); }

  /// The task graph of a training step, its update included.
  const TaskGraph& graph() const { return training_; }
  const std::vector<Stage>& trunk() const { return trunk_; }
  /// The number of bytes that other nodes send to this node in a training step.
  std::size_t bytes_due() const;
  /// own_filters() and held_filters() of this node; empty for an index beyond the last stage.
  FilterRange own(std::size_t stage) const;
  FilterRange held(std::size_t stage) const;

 private:
  struct Piece;         ///< a compiled range of a stage's filters
  struct FreshWeights;  ///< parameters that arrived from another member
  struct Input;         ///< the input tensor of stages, on the device
  struct Flight;        ///< the values of a send task while they arrive

  void compile(Device* device);
  void compile(Device& device, std::size_t stage, FilterRange filters);
  void make_slabs();
  void take_images(const Pixels& images);
  void normalise(int micro_batch, SampleRange samples);
  bool goes_ahead(const Task& task) const;
  void make_ready(int index);
  void finish(int index);
  void release(int index);
  void forward(const Task& task);
  const DeviceTensor& input_of(const Task& task);
  void write_input(const Task& task, Input& input);
  void take_added(const Task& task, Piece& piece);
  void join_here(const Sources& from, SampleRange samples, DeviceTensor& joined) const;
  std::span<const float> gather(const std::vector<Read>& reads, std::size_t number, FilterRange joined,
                                const Task& task, std::size_t map);
  void backward_input(const Task& task);
  const DeviceTensor& gradient_for(const Piece& piece) const;
  void take_made(const Piece& piece, const DeviceTensor& maps, SampleRange samples);
  void write_gradient(Piece& piece, SampleRange samples);
  void add_to_parts(const Task& task, const Piece& piece, std::size_t number, const DeviceTensor& gradient);
  void add_here(const Task& task, const Read& read, int at, bool first, const DeviceTensor& gradient);
  void backward_filters(const Task& task);
  bool finds_gradients(const Task& task) const;
  void find_statistics(const Task& task);
  void join_statistics(const Task& task);
  void take_statistics(const Task& task);
  void take_statistics_to_send(const Task& sent);
  std::vector<Tensor>& sums_of_filters(int stage);
  void sum_filters(const Task& sum);
  void add_filters(const Task& sum, int part);
  void decode_held(int sent);
  void take_filter_sum(int sent);
  void update(const Task& task);
  void use_fresh(Piece& piece);
  void add_own_part(const Task& sum, const Box& box, bool first, std::size_t begin, std::size_t count);
  void add(const Task& sum, const Box& box, bool first, std::size_t begin, NumberType type, const Bytes& bytes);
  Box box_of_part(const Task& sum, int part) const;
  std::vector<int> add_up(int sum);
  void send(int index);
  void send_values(int index);
  void pass_on(int index);
  bool is_passed_on(int index) const;
  std::vector<int> passed_on_by(int index) const;
  void send_parts();
  std::size_t values_in_parcel(const Task& sent, std::size_t bytes) const;
  std::size_t send_some(int index, std::size_t first, std::size_t most);
  Bytes encoded(int index, std::size_t first, std::size_t count);
  void encode_values(const Task& sent, std::size_t first, std::size_t count, std::byte* to);
  bool sends_weights() const { return thesis_ != nullptr && thesis_->holds_weights(); }
  Slab& made(int stage);
  Slab& gradient_by_made(int stage);
  bool everywhere(int stage) const { return convoy::everywhere(plan_.stages[static_cast<std::size_t>(stage)]); }
  bool leaves(int stage) const { return thesis_ != nullptr || residence_.leaves[static_cast<std::size_t>(stage)]; }
  bool adds_here(int stage) const { return residence_.gradients[static_cast<std::size_t>(stage)]; }
  bool joins_gradients(int stage) const;
  Slab& slab_of(const Task& sent);
  void take_weights_to_send(const Task& sent);
  void take_gradients_to_send(const Task& sent);
  void take_floats(const std::deque<Bytes>& parts, std::size_t count);
  Bytes as_kept(const Task& sent, const Bytes& bytes) const;
  void place(const Task& sent, std::size_t first, const Bytes& bytes);
  void place_pixels(const Task& sent, std::size_t first, const Bytes& bytes);
  void take_weights(const Task& task, std::span<const float> values);
  const Task& task(int index) const { return graph_->tasks[static_cast<std::size_t>(index)]; }
  SampleRange tile_samples(int stage) const { return held_[static_cast<std::size_t>(stage)].samples; }
  SampleRange shard_samples(const Task& task) const;
  std::size_t values_of(const Task& sent) const;
  std::size_t values_in(const Box& box, const Task& sum) const;

  Plan plan_;
  std::vector<Stage> trunk_;
  int index_;
  Device* device_;  ///< null for a node without shards
  Carrier carrier_;
  std::size_t most_values_;
  TaskGraph training_;
  TaskGraph testing_;
  std::vector<std::vector<int>> training_followers_;
  std::vector<std::vector<int>> testing_followers_;
  const TaskGraph* graph_ = nullptr;  ///< graph of the current step
  const std::vector<std::vector<int>>* followers_ = nullptr;

  bool updates_;  ///< whether the node updates filters
  std::vector<int> outputs_;
  std::vector<Box> held_;  ///< held_box() of this node, by stage
  Residence residence_;
  std::vector<std::vector<Piece>> pieces_;  ///< by stage: the node's own shard, then the other filters it computes
  std::vector<Input> inputs_;
  std::vector<std::size_t> input_of_;      ///< by stage, an index into inputs_
  std::vector<const DeviceTensor*> made_;  ///< by stage, its maps in the memory of the node's shard, once computed
  std::vector<const DeviceTensor*> gradient_by_;  ///< by stage, the gradient with respect to these, once computed
  std::map<int, Slab> maps_;                      ///< maps by stage; the normalised images too
  BasicSlab<std::uint8_t> pixels_;  ///< the images as they travel, in the box of maps_.at(Source::kImages)
  Normaliser normaliser_;
  std::map<int, Slab> gradients_;       ///< gradients with respect to the maps, by stage
  std::map<int, Slab> parts_;           ///< this node's addends of those gradients, by stage
  std::map<int, int> first_part_;       ///< by stage, the reading stage that overwrites parts_; other readers add to it
  std::unique_ptr<ThesisNode> thesis_;  ///< null in exchanges other than the thesis'

  StepWork work_;
  Pass pass_;                         ///< the step's pass, or that of the step before where it has none
  std::vector<int> heads_;            ///< head tasks, by micro-batch
  std::vector<std::size_t> missing_;  ///< by task, how many of the tasks that it waits for are not done
  std::vector<bool> done_;            ///< by task
  std::set<int> ready_;               ///< tasks that work() may run
  std::size_t gradients_left_ = 0;    ///< tasks of finds_gradients() that are not done
  bool sent_ahead_ = false;           ///< whether send_ahead() has sent the images of the next step
  std::size_t left_ = 0;              ///< tasks of this step that this node has not run or received yet
  std::vector<double> seconds_;       ///< computing time, by stage

  /// By stage with several rows, in the form of Shard::gradients() for all filters of the node's tile: the gradients of its
  /// samples, and the sums of all rows' gradients, for filters that it owns and those whose sum their owner sends it.
  std::map<int, std::vector<Tensor>> filter_gradients_;
  std::map<int, std::vector<Tensor>> filter_sums_;
  /// By stage, the moments or slopes of its current batch norm: of this node's samples for its tile's channels, and of all
  /// samples.
  std::map<int, std::vector<float>> statistics_;
  struct Joint {
    FilterRange channels;
    std::vector<float> values;
  };
  std::map<int, Joint> joint_statistics_;

  std::map<int, Flight> flights_;                  ///< by send task
  std::map<int, std::vector<Bytes>> passing_;      ///< by send task, its values until the node has passed them on
  std::map<int, std::vector<std::size_t>> added_;  ///< by sum task, how many values of each addend it contains
  std::deque<int> parts_to_send_;                  ///< send tasks that need credit, in the graph's order
  std::size_t part_sent_ = 0;                      ///< values of the first of them that were sent
  int credit_;                                     ///< parcels that the node may send without another grant
  std::vector<Parcel> shared_;  ///< parcels of the last send; sends of the same values to other nodes share their bytes
  AlignedVector<float> scratch_;
  AlignedVector<float> weights_to_send_;  ///< parameters, their gradients, or statistics of the send task in progress
};

}  // namespace convoy
