// Models that are refused, and what the message says.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "core/error.hpp"
#include "tests/nets/idioms.hpp"

namespace convoy {

struct Refusal {
  std::string name;
  std::function<void(SmallModel&)> nodes;
  std::string says;
  int opset = 13;
};

inline void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

/// The message that refuses a model, or "imported".
inline std::string message_of(SmallModel& model) {
  try {
    parse_onnx(model.bytes(), "refused.onnx", "refused");
  } catch (const Error& error) {
    return error.what();
  }
  return "imported";
}

class OnnxRefusals : public testing::TestWithParam<Refusal> {};

constexpr auto refusal_name = [](const auto& info) { return info.param.name; };
constexpr std::int64_t kLargestInteger = std::numeric_limits<std::int64_t>::max();

}  // namespace convoy
