// Reads one layer of a net file.
#pragma once

#include "nets/file/fields.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// A layer as written in the file. The shape of its input is not known yet, so padding `same` is not resolved.
struct WrittenLayer {
  Layer layer;                    ///< the layer without its inputs and output
  std::vector<std::string> from;  ///< names of its inputs; if empty, the input is the layer before
  bool same = false;              ///< padding that makes the output's extent ceil(input's extent / stride)
  Fields fields;                  ///< the layer's map, for errors
  bool has_rate = false;          ///< whether the layer has a field `freeze` or `rate` of its own
};

/// Reads the layer with index `number` of the file. Throws Error for unknown types and fields, and for values out of
/// range.
WrittenLayer read_layer(const std::string& file, const YAML::Node& node, std::size_t number, const Applied& applied);

/// Resolves padding and computes the output's shape. Throws Error if the layer does not fit its inputs.
void connect(WrittenLayer& written, const std::vector<FeatureShape>& inputs);

}  // namespace convoy
