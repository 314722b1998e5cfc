// A tensor as files have it.
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
