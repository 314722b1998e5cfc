// One layer of a net file.
#pragma once

#include "nets/file/fields.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// A layer as written: its input's shape is not known yet, so padding `same` is not resolved.
struct WrittenLayer {
  Layer layer;                    ///< without inputs and output
  std::vector<std::string> from;  ///< names of its inputs; empty: the layer before
  bool same = false;              ///< padding: output extent is the input's divided by the stride, rounded up
  Fields fields;                  ///< for messages
};

/// Throws Error for unknown types and fields and for values out of range.
WrittenLayer read_layer(const std::string& file, const YAML::Node& node, std::size_t number, const Applied& applied);

/// Resolves padding and finds the output's shape. Throws Error where the layer does not fit its inputs.
void connect(WrittenLayer& written, const std::vector<FeatureShape>& inputs);

}  // namespace convoy
