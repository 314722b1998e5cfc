#include "exchange/thesis_node.hpp"

#include <algorithm>

namespace convoy {

ThesisNode::ThesisNode(const Plan& plan, const std::vector<Stage>& trunk, const TaskGraph& graph, int index)
    : batch_(plan.batch) {
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    const FilterRange held = held_filters(plan, graph, s, index);
    if (held.count == 0) continue;
    const Shape shape = conv_shape(trunk[s], batch_, held.count);
    convolved_[static_cast<int>(s)] = {Tensor(shape), {held, {0, batch_}}};
    convolved_gradients_[static_cast<int>(s)] = {Tensor(shape), {held, {0, batch_}}};
    if (index != graph.master) continue;
    layers_.push_back(std::make_unique<ChannelLayers<float>>(
        ShardSpec{.stage = trunk[s], .filters = held, .batch = batch_}, nullptr));
    weights_.push_back(zero_state(trunk[s], held.count));
  }
}

Stage ThesisNode::compiled(Stage stage) {
  stage.after.clear();
  return stage;
}

void ThesisNode::layers(int stage, const Pass& pass, Slab& maps) {
  ChannelLayers<float>& layers = *layers_[stage];
  std::ranges::copy(convolved(stage).values.span(), layers.input().data());
  layers.forward({0, batch_}, pass, serially);
  std::ranges::copy(layers.output().span(), maps.values.data());
}

void ThesisNode::layers_backward(int stage, const Slab& gradient) {
  ChannelLayers<float>& layers = *layers_[stage];
  std::ranges::copy(gradient.values.span(), layers.output_gradient().data());
  layers.backward({0, batch_}, serially);
  std::ranges::copy(layers.input_gradient().span(), convolved_gradient(stage).values.data());
}

}  // namespace convoy
