// What replicas and their server do with whole models: averages, rounding to the type of the wire, and moments that go
// from one model to another.
#pragma once

#include <vector>

#include "core/number_type.hpp"
#include "model/checkpoint.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

/// The mean of the gradients of several batches, or of models with their moments, added in their order.
ModelState mean_of(std::vector<ModelState> models);

/// Rounds the trained parameters of stages and their moments to the type in which they travel, so that it makes no
/// difference who computes. Running averages and dense layers are not rounded.
ModelState rounded(ModelState model, const Cut& cut, NumberType type);

/// The values of all parameters, without moments.
ModelState values_of(const ModelState& model);
/// Gives `to` the moments of `from`, which may be a part of the same net: its trunk or its heads.
void take_moments(const ModelState& from, ModelState& to);

}  // namespace convoy
