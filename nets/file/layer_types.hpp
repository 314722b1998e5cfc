// The types of layers in net files, and their fields.
#pragma once

#include <vector>

#include "nets/file/fields.hpp"
#include "nets/graph/net.hpp"

namespace convoy {

struct LayerType {
  const char* name;
  /// Reads the fields of the type. Sets `same` for a window whose padding is `same`, which its input decides.
  LayerSpec (*read)(Fields& fields, bool& same);
};

const std::vector<LayerType>& layer_types();

/// Stands for as many groups as the input has channels, until the input is known.
inline constexpr int kGroupOfEachChannel = 0;

}  // namespace convoy
