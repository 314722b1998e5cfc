// Resize and Upsample, where they make maps larger by whole factors.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {
namespace {

/// How ONNX finds, for an element of the larger row or column, the place in the smaller one.
struct Places {
  std::string transformation;
  std::string rounding;  ///< of the nearest element
  bool linear = false;

  double place(int at, int factor, int extent) const {
    const double scale = factor;
    const int outputs = extent * factor;
    if (transformation == "asymmetric") return at / scale;
    if (transformation == "align_corners") return outputs > 1 ? at * (extent - 1.0) / (outputs - 1.0) : 0.0;
    if (transformation == "pytorch_half_pixel" && outputs == 1) return 0.0;
    if (transformation == "tf_half_pixel_for_nn") return (at + 0.5) / scale;
    return (at + 0.5) / scale - 0.5;  // half_pixel, and half_pixel_symmetric for whole factors
  }
  int nearest(double place) const {
    if (rounding == "floor") return static_cast<int>(std::floor(place));
    if (rounding == "ceil") return static_cast<int>(std::ceil(place));
    if (rounding == "round_prefer_ceil") return static_cast<int>(std::floor(place + 0.5));
    return static_cast<int>(std::ceil(place - 0.5));
  }
  /// Whether the elements at both ends of a row or column are those of Upsampling (core/stage.hpp). Between the ends all
  /// repeat, but for aligned corners, which differ at the ends.
  bool fit(int factor, int extent) const {
    const int outputs = extent * factor;
    for (int at = 0; at < outputs; ++at) {
      if (at == 4 * factor) at = std::max(at, outputs - 4 * factor);
      const double found = place(at, factor, extent);
      const bool same = linear ? std::abs(found - ((at + 0.5) / factor - 0.5)) < 1e-6
                               : std::clamp(nearest(found), 0, extent - 1) == at / factor;
      if (!same) return false;
    }
    return true;
  }
};

}  // namespace

std::vector<double> Importer::scales_of(const Node& node, const Value& from) {
  const bool upsample = node.type == "Upsample";
  const std::size_t input = upsample || graph_.opset < 11 ? 1 : 2;
  std::vector<double> scales;
  if (has(node, input)) {
    for (const float each : floats(node, input, "scales")) scales.push_back(each);
  } else if (upsample) {
    const auto found = node.attributes.find("scales");
    if (found != node.attributes.end()) scales.assign(found->second.floats.begin(), found->second.floats.end());
  }
  if (scales.empty() && !upsample && has(node, 3)) {
    const Constant& sizes = constant(node, 3, "sizes");
    if (!sizes.whole) refuse("its sizes must be integers");
    Extents before = extents_of(from);
    const Extents axes = integers(node, "axes", {});
    if (!axes.empty()) {
      Extents some;
      for (const std::int64_t axis : axes) some.push_back(before[static_cast<std::size_t>(axis_of(axis, 4))]);
      before = some;
    }
    if (sizes.integers.size() != before.size()) {
      refuse("it has {} sizes; expected {}", sizes.integers.size(), before.size());
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::int64_t size = sizes.integers[i];
      if (before[i] == kBatch && size != 1 && size != kBatch) {
        refuse("it makes {} images, but the number of images is free in this model", size);
      }
      // A model with a size of one image does the same for each image.
      const bool same = size == before[i] || before[i] == kBatch;
      scales.push_back(same ? 1.0 : static_cast<double>(size) / static_cast<double>(before[i]));
    }
  }
  const Extents axes = upsample ? Extents{} : integers(node, "axes", {});
  std::vector<double> all(4, 1.0);
  if (axes.empty() && scales.size() != 4) refuse("it has {} scales; expected 4", scales.size());
  if (!axes.empty() && scales.size() != axes.size()) {
    refuse("it has {} scales for {} axes; expected one for each", scales.size(), axes.size());
  }
  for (std::size_t i = 0; i < scales.size(); ++i) {
    all[axes.empty() ? i : static_cast<std::size_t>(axis_of(axes[i], 4))] = scales[i];
  }
  return all;
}

void Importer::resize(const Node& node) {
  constexpr double kLargest = 1024;  // of a net file
  const Value from = maps(node);
  const std::vector<double> scales = scales_of(node, from);
  std::vector<int> factors;
  for (const double scale : scales) {
    if (!(scale >= 1.0 && scale <= kLargest) || std::abs(scale - std::round(scale)) > 1e-6) {
      refuse("it scales images, channels, rows and columns by {}; Convoy makes maps larger by whole factors up to {}",
             fmt::join(scales, ", "), kLargest);
    }
    factors.push_back(static_cast<int>(std::round(scale)));
  }
  if (factors[0] != 1 || factors[1] != 1) refuse("it scales images or channels; expected rows and columns alone");
  if (factors[2] == 1 && factors[3] == 1) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  const long values = static_cast<long>(from.size()) * factors[2] * factors[3];
  if (values > (1L << 28)) refuse("its output would have {} values for each image; the limit is {}", values, 1L << 28);
  const std::string mode = text(node, "mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear") {
    refuse("its mode is {}; expected nearest or linear", mode);
  }
  if (number(node, "antialias", 0) != 0) refuse("antialias is set; expected 0");
  // Upsample, and Resize before opset 11, had no choice.
  const bool chooses = node.type == "Resize" && graph_.opset >= 11;
  const Places places{
      .transformation = chooses ? text(node, "coordinate_transformation_mode", "half_pixel") : "asymmetric",
      .rounding = chooses ? text(node, "nearest_mode", "round_prefer_floor") : "floor",
      .linear = mode != "nearest"};
  if (!places.fit(factors[2], from.maps.height) || !places.fit(factors[3], from.maps.width)) {
    refuse(
        "it finds elements by {}{}; Convoy enlarges as PyTorch does by default, with mode nearest, or with mode "
        "bilinear and align_corners=False",
        places.transformation, places.linear ? "" : " and " + places.rounding);
  }
  const FeatureShape larger{from.maps.channels, from.maps.height * factors[2], from.maps.width * factors[3]};
  Value made = builder_.shaped(node.name,
                               fmt::format("upsample, factor: [{}, {}], mode: {}", factors[2], factors[3],
                                           places.linear ? "bilinear" : "nearest"),
                               from, larger);
  made.positive = from.positive;
  give(node, std::move(made));
}

}  // namespace convoy::onnx_file
