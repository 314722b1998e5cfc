// Whether a tensor of weights, from wherever it comes, has values with which a net can compute.
#pragma once

#include <span>
#include <string>

namespace convoy {

/// Throws Error naming `file` and the tensor if a value is NaN or infinite, or if a variance (".running_var") or a mean
/// of squares (".squares") is negative.
void require_valid(const std::string& file, const std::string& tensor, std::span<const float> values);

}  // namespace convoy
