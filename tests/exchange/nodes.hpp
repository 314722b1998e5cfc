// Runs all nodes of a plan in one thread, and makes the inputs and gradients for their tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "exchange/node.hpp"
#include "tests/support/images.hpp"
#include "tests/support/states.hpp"

namespace convoy {

using Stages = std::vector<Stage>;

inline constexpr auto kStar = Exchange::star;
inline constexpr auto kRing = Exchange::ring;
inline constexpr UpdateStep kSgd{.learning_rate = 0.02F, .momentum = 0.9F, .weight_decay = 0.001F};
inline constexpr int kGrant = -1;  ///< stands for a grant in place of a parcel's task

inline Tensor drawn(const Shape& shape, std::uint64_t stream, float scale) {
  Tensor tensor(shape);
  Random random(3, stream);
  for (float& value : tensor.span()) value = random.uniform(-scale, scale);
  return tensor;
}

/// Weights drawn for all stages of a trunk.
inline std::vector<ShardState> start(const Stages& trunk) {
  std::vector<ShardState> states;
  for (const Stage& stage : trunk) {
    ShardState state = zero_state(stage, stage.conv.filters);
    for (std::size_t p = 0; p < convolution_parameters(stage); ++p) {
      Tensor& values = state.parameters[p].value;
      values = drawn(values.shape(), 50 + 10 * p + states.size(), p == 0 ? 0.4F : 0.1F);
    }
    states.push_back(std::move(state));
  }
  return states;
}

/// Stands for a head: the gradient of a multiple of the squared distance between the outputs and a target.
inline Tensor gradient_of(const Tensor& output, int step) {
  Tensor gradient = drawn(output.shape(), 200 + static_cast<std::uint64_t>(step), 1.0F);
  for (std::size_t i = 0; i < output.size(); ++i) gradient.data()[i] = 0.05F * (output.data()[i] - gradient.data()[i]);
  return gradient;
}

inline Pass pass_of(int step) { return {.training = true, .seed = 77U + static_cast<std::uint64_t>(step)}; }

/// The gradients by all outputs.
template <class Network>
std::vector<Tensor> gradients_of(const Network& network, const Stages& trunk, int step) {
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < outputs_of(trunk).size(); ++i) gradients.push_back(gradient_of(network.output(i), step));
  return gradients;
}

inline std::vector<const Tensor*> pointers(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> all;
  for (const Tensor& tensor : tensors) all.push_back(&tensor);
  return all;
}

/// All nodes of a plan in one thread. The order of turns and arrivals is drawn from a seed; parcels of different tasks
/// overtake one another. A node begins a step when it has finished the step before, whatever the others do.
class Nodes {
 public:
  Nodes(const Plan& plan, const Stages& trunk, const std::string& device, std::uint64_t seed,
        const std::vector<ShardState>& states, std::size_t most_values = 37)
      : Nodes(
            plan, trunk, [&](int) { return make_device(device, {.threads = 1}); }, seed, states, most_values) {}
  /// `device_of` returns the device of a node.
  Nodes(const Plan& plan, const Stages& trunk, const std::function<std::unique_ptr<Device>(int)>& device_of,
        std::uint64_t seed, const std::vector<ShardState>& states, std::size_t most_values = 37)
      : plan_(plan), trunk_(trunk), random_(seed, 0) {
    const TaskGraph graph = make_task_graph(plan, trunk);
    master_ = graph.master;
    begun_.assign(at(graph.nodes), 0);
    for (int i = 0; i < graph.nodes; ++i) devices_.push_back(device_of(i));
    for (int i = 0; i < graph.nodes; ++i) {
      const Carrier carrier{.send =
                                [this, i](Parcel&& parcel) {
                                  const int step = ahead_ ? step_ : begun_[at(i)];
                                  queues_[{i, parcel.to}].push_back({step, std::move(parcel)});
                                },
                            .grant =
                                [this, i](int to) {
                                  queues_[{i, to}].push_back({0, {.task = kGrant, .to = to}});
                                }};
      nodes_.push_back(std::make_unique<Node>(plan, trunk, i, devices_[at(i)].get(), carrier, most_values));
    }
    for (int i = 0; i < graph.nodes; ++i) {
      for (std::size_t s = 0; s < states.size(); ++s) {
        const FilterRange held = held_filters(plan, graph, s, i);
        if (held.count > 0) nodes_[at(i)]->set_state(s, held, slice(states[s], held));
      }
    }
  }

  const Tensor& forward(const Images& images, const Pass& pass) {
    if (!pass.training) apply_update();
    begin({.update = std::exchange(update_, std::nullopt), .pass = pass}, images);
    run_until([&] { return has_begun(master_) && master().outputs_ready() == plan_.micro_batches; });
    if (!pass.training) settle();
    return master().output(outputs_of(trunk_).size() - 1);
  }
  const Tensor& output(std::size_t number) const { return master().output(number); }
  void backward(const std::vector<const Tensor*>& gradients) {
    for (int m = 0; m < plan_.micro_batches; ++m) master().give_gradients(gradients, m);
  }
  /// Runs forward and backward. The gradient of a micro-batch is given at once or some turns after its outputs are
  /// ready.
  void train(const Images& images, int step) {
    begin({.update = std::exchange(update_, std::nullopt), .pass = pass_of(step)}, images);
    for (int m = 0; m < plan_.micro_batches; ++m) {
      run_until([&] { return has_begun(master_) && master().outputs_ready() > m; });
      for (std::uint32_t turns = random_.below(3) * 20; turns > 0; --turns) one_turn();
      // For other micro-batches, the outputs are still those of an earlier step.
      master().give_gradients(pointers(gradients_of(*this, trunk_, step)), m);
    }
  }
  /// Waits until each node that updates filters knows their gradients.
  double gradient_squares() {
    run_until([&] {
      for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
        const Node& node = *nodes_[at(i)];
        if (!has_begun(i) || (updates(node.graph(), i) && !node.gradients_ready())) return false;
      }
      return true;
    });
    double sum = 0.0;
    for (const auto& node : nodes_) sum += node->gradient_squares();
    return sum;
  }
  /// The next step, or the next look at the states, begins with the update.
  void update(const UpdateStep& step) { update_ = step; }
  std::vector<ShardState> states() {
    apply_update();
    std::vector<ShardState> states;
    for (const Stage& stage : trunk_) {
      const std::size_t s = states.size();
      ShardState whole = zero_state(stage, stage.conv.filters);
      for (const Assignment& owner : owners_of(plan_.stages[s])) {
        paste(nodes_[at(owner.member)]->state(s, owner.filters), owner.filters, whole);
      }
      states.push_back(std::move(whole));
    }
    return states;
  }
  Node& master() const { return *nodes_[at(master_)]; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  /// The state of each member's tile of a stage after the last step, with its filters.
  std::vector<std::pair<Tile, ShardState>> tile_states(std::size_t stage) {
    apply_update();
    std::vector<std::pair<Tile, ShardState>> states;
    for (const Tile& tile : tiles_of(plan_.stages[stage])) {
      states.emplace_back(tile, nodes_[at(tile.member)]->state(stage, tile.filters));
    }
    return states;
  }

 private:
  struct Sent {
    int step;
    Parcel parcel;
  };

  static std::size_t at(int node) { return static_cast<std::size_t>(node); }

  void begin(StepWork work, const Images& images) {
    run_until([&] { return std::ranges::all_of(begun_, [&](int step) { return step == step_; }); });
    ++step_;
    if (work.pass) work.scales = images.scales;
    work_ = std::move(work);
    images_ = images;
    if (work_.trains() && random_.below(2) == 0) {
      ahead_ = true;
      master().send_ahead(images_.pixels);
      ahead_ = false;
    }
  }
  void apply_update() {
    settle();
    if (!update_) return;
    begin({.update = std::exchange(update_, std::nullopt), .pass = {}}, images_);
    settle();
  }
  bool has_begun(int node) const { return begun_[at(node)] == step_; }
  void settle() {
    run_until([&] {
      return std::ranges::all_of(begun_, [&](int step) { return step == step_; }) &&
             std::ranges::all_of(nodes_, [](const auto& node) { return node->finished(); });
    });
  }

  /// Whether a parcel that waits may arrive now, before those that were sent earlier on the same way. Those of one task
  /// arrive in their order.
  bool may_overtake(const std::deque<Sent>& queue, std::deque<Sent>::const_iterator late) const {
    if (late->step > begun_[at(late->parcel.to)]) return false;
    return late->parcel.task == kGrant ||
           std::none_of(queue.begin(), late, [&](const Sent& sent) { return sent.parcel.task == late->parcel.task; });
  }

  /// Lets one node work or begin the next step, or one parcel arrive. Parcels wait until the receiver has begun their
  /// step. No result may depend on which task's parcels come first: two lanes, and images that a slave has kept, do not
  /// keep the order in which they were sent.
  void one_turn() {
    if (random_.below(2) == 0) {
      const std::uint32_t node = random_.below(static_cast<std::uint32_t>(nodes_.size()));
      if (!nodes_[node]->work() && nodes_[node]->finished() && begun_[node] < step_) {
        begun_[node] = step_;
        nodes_[node]->begin(work_, static_cast<int>(node) == master_ && work_.pass ? &images_.pixels : nullptr);
      }
      return;
    }
    if (queues_.empty()) return;
    auto queue = queues_.begin();
    std::advance(queue, random_.below(static_cast<std::uint32_t>(queues_.size())));
    auto next =
        std::ranges::find_if(queue->second, [&](const Sent& sent) { return sent.step <= begun_[at(sent.parcel.to)]; });
    if (next == queue->second.end()) return;
    const auto late = next + random_.below(static_cast<std::uint32_t>(queue->second.end() - next));
    if (may_overtake(queue->second, late)) next = late;
    const Parcel parcel = std::move(next->parcel);
    queue->second.erase(next);
    const std::size_t to = at(parcel.to);
    if (parcel.task == kGrant) {
      nodes_[to]->grant();
    } else {
      nodes_[to]->receive(queue->first.first, parcel.task, parcel.first, parcel.bytes);
    }
  }

  template <class Done>
  void run_until(Done done) {
    for (int turn = 0; !done(); ++turn) {
      ASSERT_LT(turn, 1000000) << "no node has anything to do";
      one_turn();
    }
  }

  Plan plan_;
  Stages trunk_;
  Random random_;
  int master_ = 0;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::pair<int, int>, std::deque<Sent>> queues_;
  int step_ = 0;            ///< the last step that the nodes were given
  StepWork work_;           ///< the work of step_
  Images images_;           ///< the images of step_
  std::vector<int> begun_;  ///< by node, the last step that it has begun
  bool ahead_ = false;      ///< whether the master's node sends images of a step that it has not begun
  std::optional<UpdateStep> update_;
};

/// Expects that each node has the pixels of the samples of `images` that it needs, and the master's scales for them.
inline void expect_same_images(const Nodes& nodes, const Images& images, const Plan& plan) {
  Normaliser masters;
  masters.use(images.scales);
  for (const auto& node : nodes.nodes()) {
    const PixelSlab* slab = node->maps().pixels();
    if (slab == nullptr) continue;
    EXPECT_TRUE(std::ranges::equal(node->maps().normaliser().table(), masters.table()));
    for (int m = 0; m < plan.micro_batches; ++m) {
      const SampleRange there = slab->place(m, slab->box.samples);
      const int first = m * micro_batch_size(plan) + slab->box.samples.first;
      EXPECT_TRUE(std::ranges::equal(slab->values.samples(there.first, there.count),
                                     images.pixels.samples(first, there.count)));
    }
  }
}

/// What a trunk, on one device or on nodes, has after training.
struct Result {
  Tensor tested;  ///< output of a forward pass after training
  std::vector<ShardState> states;
  std::vector<double> squares;  ///< of the gradients, by step; empty in tests that do not look at them
};

inline void expect_close(const Result& got, const Result& expected, float tolerance) {
  for (std::size_t i = 0; i < expected.squares.size(); ++i) {
    EXPECT_NEAR(got.squares[i], expected.squares[i], 10 * tolerance * expected.squares[i]) << "step " << i;
  }
  for (std::size_t i = 0; i < expected.tested.size(); ++i) {
    ASSERT_NEAR(got.tested.data()[i], expected.tested.data()[i], 10 * tolerance) << "output " << i;
  }
  for (std::size_t s = 0; s < expected.states.size(); ++s) {
    SCOPED_TRACE(s);
    expect_near(got.states[s], expected.states[s], tolerance);
  }
}

inline bool same_bits(const Result& a, const Result& b) {
  return std::ranges::equal(a.states, b.states,
                            [](const ShardState& one, const ShardState& other) { return same_bits(one, other); }) &&
         a.squares == b.squares && std::ranges::equal(a.tested.span(), b.tested.span());
}

}  // namespace convoy
