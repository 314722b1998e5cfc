// What imported nodes make of the maps of a SmallModel, for comparisons with loops.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/nets/idioms.hpp"

namespace convoy {

inline constexpr int kMaps = 4;  ///< of 6x6, which the convolution of a SmallModel makes of two images
inline constexpr int kSide = 6;
inline constexpr std::size_t kValues = 144;

using Nodes = std::function<void(SmallModel&)>;

inline ImportedNet imported_with(const Nodes& nodes, int opset, std::size_t values) {
  SmallModel m(opset);
  nodes(m);
  pass_on(m, values);
  return parse_onnx(m.bytes(), "norms.onnx", "norms");
}

/// What a model's nodes make of two images, as `values` values for each.
inline std::vector<float> made_by(const Nodes& nodes, int opset = 13, std::size_t values = kValues) {
  const ImportedNet net = imported_with(nodes, opset, values);
  return outputs_of(net, drawn_images(parse_net(net.yaml, "norms"), 2));
}

inline std::vector<float> plain_maps() {
  return made_by([](SmallModel&) {});
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-5) << i;
}

inline int channel_of(std::size_t i) { return static_cast<int>(i / (kSide * kSide)) % kMaps; }

inline std::vector<float> numbers(const std::string& name, std::int64_t count) {
  SmallModel m;
  m.constant(name, {count});
  return m.values(name);
}

}  // namespace convoy
