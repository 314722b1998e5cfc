#include "nets/graph/division.hpp"

#include <algorithm>

namespace convoy {
namespace {

template <class... Types>
bool is_one_of(const Layer& layer) {
  return (std::holds_alternative<Types>(layer.spec) || ...);
}

}  // namespace

bool fits_head(const Layer& layer) {
  return is_one_of<Dense, Flatten, Activation, Dropout, SoftmaxCrossEntropy, SquaredError>(layer);
}

Division::Division(const Net& net) : before_stages(net.layers.size(), false), readers(net.layers.size(), 0), net_(net) {
  for (const Layer& layer : net.layers) {
    for (const int input : layer.inputs) {
      if (input != kNetInput) ++readers[input];
    }
    const bool lists = is_one_of<Flatten, Activation, Dropout>(layer);  // a flatten only gives maps another form
    const FeatureShape shape = lists ? shape_of(layer.inputs[0]) : layer.output;
    maps.push_back(shape);
  }
  for (std::size_t i = net.layers.size(); i-- > 0;) {
    // Heads are chains, so that what several layers read is in front of all heads.
    if (readers[i] > 1) before_stages[i] = true;
    if (fits_head(net.layers[i]) && !before_stages[i]) continue;
    for (const int input : net.layers[i].inputs) {
      if (input != kNetInput) before_stages[input] = true;
    }
  }
  for (std::size_t i = 0; i < net.layers.size(); ++i) {
    const Layer& layer = net.layers[i];
    has_trunk = has_trunk || convolution_in(layer) != nullptr || (is_one_of<Dense>(layer) && before_stages[i]);
  }
}

const FeatureShape& Division::shape_of(int layer) const { return layer == kNetInput ? net_.input : maps[layer]; }

}  // namespace convoy
