// Reads a plan, a calibration or keys; the first byte selects one of them.

#include <string>

#include "plan/calibration.hpp"
#include "plan/plan.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "wire/keys.hpp"

namespace {

std::vector<convoy::Stage> trunk() {
  const convoy::Convolution conv{.filters = 4, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}};
  return {{.name = "conv1", .channels = 1, .height = 6, .width = 6, .conv = conv, .after = {}},
          {.name = "conv2", .channels = 4, .height = 6, .width = 6, .conv = conv, .after = {}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  return try_to([&] {
    if (data[0] == 'p') validate(plan_from_json(text, "plan.json"), trunk());
    if (data[0] == 'c') calibration_from_json(text, "calibration.json", trunk(), 8);
    if (data[0] == 'k') wire::join_key_from(text);
  });
}
