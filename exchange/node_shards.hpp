// The shards of a node: compiled on its device, with the tensors that pass between them there.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exchange/host_maps.hpp"
#include "exchange/node_plan.hpp"
#include "kernels/device.hpp"

namespace convoy {

class NodeShards {
 public:
  /// Compiles the node's tiles, and the other filters of stages that the node computes although other members hold
  /// them. A node without shards needs no device. All arguments must outlive the shards. Throws Error if the device
  /// cannot hold them.
  NodeShards(const NodePlan& plan, HostMaps& host, bool sends_weights, Device* device);
  ~NodeShards();

  void begin_step();
  void forward(const Task& task, const Pass& pass);
  /// Takes the heads' gradient with respect to samples of a stage's maps, where NodePlan::from_heads().
  void take_gradient(int stage, SampleRange samples, std::span<const float> values);
  void backward_input(const Task& task);
  /// The moments or slopes of a batch norm over the node's samples.
  std::vector<float> find_statistics(const Task& task);
  void take_statistics(const Task& task, std::span<const double> joint);

  /// The shard of the node's tile of a stage; null where the node has none of the stage's filters.
  Shard* tile(int stage) const;
  /// Whether this shard has a backward pass here.
  bool goes_backward(int stage) const;
  /// The state of some filters of the node's tile.
  ShardState state(int stage, FilterRange filters) const;
  /// Sets the state of filters of a stage. Ignores filters that the node does not hold.
  void set_state(int stage, FilterRange filters, const ShardState& state);
  /// Takes parameters of filters, as they travel. They wait until the shard computes forward, or somebody asks for its
  /// state, because they may arrive before the node's own update.
  void take_weights(int stage, FilterRange filters, std::span<const float> values);

 private:
  struct Piece;         ///< a compiled range of a stage's filters
  struct FreshWeights;  ///< parameters that arrived from another member
  struct Input;         ///< the input tensor of stages, on the device

  void compile(std::size_t stage, FilterRange filters);
  const DeviceTensor& input_of(const Task& task);
  bool write_images(const Task& task, Input& input);
  void write_input(const Task& task, Input& input);
  void take_added(const Task& task, Piece& piece);
  void join_here(const Sources& from, SampleRange samples, DeviceTensor& joined) const;
  std::span<const float> gather(const std::vector<Read>& reads, std::size_t number, FilterRange joined,
                                const Task& task, std::size_t map);
  void take_made(const Piece& piece, const DeviceTensor& maps, SampleRange samples);
  const DeviceTensor& gradient_for(const Piece& piece) const;
  void write_gradient(Piece& piece, SampleRange samples);
  void add_to_parts(const Task& task, const Piece& piece, std::size_t number, const DeviceTensor& gradient);
  void add_here(const Task& task, const Read& read, int at, bool first, const DeviceTensor& gradient);
  void use_fresh(Piece& piece);
  void charge_to_stage() const;
  std::vector<Piece>& pieces(int stage) { return pieces_[stage]; }

  const NodePlan& plan_;
  HostMaps& host_;
  Device* device_;
  std::vector<std::vector<Piece>> pieces_;  ///< by stage: the node's own shard, then the other filters it computes
  std::vector<Input> inputs_;
  std::vector<std::size_t> input_of_;      ///< by stage, an index into inputs_
  std::vector<const DeviceTensor*> made_;  ///< by stage, its maps in the memory of the node's shard, once computed
  std::vector<const DeviceTensor*> gradient_by_;  ///< by stage, the gradient with respect to these, once computed
  AlignedVector<float> scratch_;
};

}  // namespace convoy
