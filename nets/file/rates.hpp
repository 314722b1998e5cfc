// Reads which layers are frozen and which have a learning rate of their own.
#pragma once

#include <string>
#include <vector>

#include "nets/file/read_layer.hpp"

namespace convoy {

/// A factor of the learning rate for all layers with weights whose names match a pattern: a name in which * stands for
/// any letters and ? for one letter.
struct RatePattern {
  std::string pattern;
  float rate = 1.0F;
};

/// The fields `freeze` and `rate` of the `training:` block, with the block for errors. The last pattern that matches a
/// layer counts; those of `freeze` come last.
struct LayerRates {
  std::vector<RatePattern> patterns;
  std::vector<Fields> owner = {};  ///< the block; none where the file has no such fields
};

/// Returns whether a name matches a pattern.
bool matches_pattern(const std::string& pattern, const std::string& name);

/// Reads `freeze` (a pattern, or a list of them) and `rate` (a map from pattern to factor) of the `training:` block.
LayerRates read_rates(Fields& training);
/// Reads `freeze` and `rate` of a layer with weights. Notes in `written` whether the layer has either.
void read_rate(WrittenLayer& written);
/// Gives the patterns' rates to the layers that have none of their own. Throws Error where a pattern matches no layer
/// with weights, or no layer is left to train.
void apply_rates(const LayerRates& rates, std::vector<WrittenLayer>& layers);

}  // namespace convoy
