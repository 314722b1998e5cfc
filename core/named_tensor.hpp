// A named tensor, as weight files store it: `values` are row-major in the extents of `dims`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> dims;
  std::vector<float> values;
};

}  // namespace convoy
