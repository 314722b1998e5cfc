// Resize and Upsample of rows and columns.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "nets/onnx/importer.hpp"
#include "nets/onnx/places.hpp"

namespace convoy::onnx_file {
namespace {

constexpr int kMostElements = 1 << 20;

/// The extents of an axis before and after a Resize, and the distance of neighbouring elements of the result in the map
/// before it.
struct ScaledAxis {
  int from = 1;
  int to = 1;
  double step = 1.0;
};

/// Returns the axis with the extent that a scale gives it. A Resize rounds the product of extent and scale down in
/// single precision, where products of quotients of two extents are whole.
ScaledAxis scaled(int from, double scale) {
  const auto exact = static_cast<float>(scale);
  const double whole = std::round(from * scale);
  const bool quotient = std::abs(from * scale - whole) < 1e-6 * whole;
  const double to = quotient ? whole : std::floor(static_cast<float>(from) * exact);
  if (!(to >= 1.0 && to <= kMostElements)) {
    refuse("it scales {} rows or columns by {}; expected 1 to {} of them", from, scale, kMostElements);
  }
  const ScaledAxis axis{from, static_cast<int>(to), from / to};
  if (quotient) return axis;
  // Scales such as 0.6 are no floats; their author has written a decimal number.
  return {from, axis.to, 1.0 / std::stod(fmt::format("{}", exact))};
}

}  // namespace

/// Resizing rounds places down. For other ways of rounding, places begin later.
std::vector<PlacesOfElements> ways_to_place(Resizing::Mode mode, int from, int to, double step) {
  const bool linear = mode == Resizing::Mode::linear;
  const double corners = to > 1 ? (from - 1.0) / (to - 1.0) : 0.0;
  const std::vector<std::pair<const char*, Resizing::Axis>> all{{"asymmetric", {to, step, 0.0}},
                                                                {"half_pixel", {to, step, 0.5 * step - 0.5}},
                                                                {"align_corners", {to, corners, 0.0}}};
  constexpr double kLess = 1e-6;
  const std::vector<std::pair<const char*, double>> roundings{
      {"floor", 0.0}, {"round_prefer_floor", 0.5 - kLess}, {"round_prefer_ceil", 0.5}, {"ceil", 1.0 - kLess}};
  std::vector<PlacesOfElements> ways;
  for (const auto& [transformation, axis] : all) {
    for (const auto& [rounding, more] : roundings) {
      ways.push_back({transformation, linear ? "" : rounding, axis});
      if (linear) break;
      ways.back().axis.start += more;
      // Products of a step of corners may lie a little below whole numbers.
      if (ways.back().axis.start == 0.0 && std::string(transformation) == "align_corners")
        ways.back().axis.start = 0.1 * kLess;
    }
  }
  return ways;
}

namespace {

/// Returns the places of an axis' elements in a Resize. Refuses coordinates that Convoy does not know.
Resizing::Axis axis_of_resize(const ScaledAxis& axis, Resizing::Mode mode, const std::string& transformation,
                              const std::string& rounding) {
  std::string as = transformation;
  if (as == "pytorch_half_pixel" && axis.to == 1) return {1, 0.0, 0.0};
  if (as == "pytorch_half_pixel") as = "half_pixel";
  if (as == "align_corners" && axis.to > 1 && std::abs(axis.step * axis.to - axis.from) > 1e-6 * axis.from) {
    refuse(
        "its scale makes {} rows or columns {:g}, which is no whole number, and with align_corners programs differ in "
        "their "
        "results then; export the model with sizes instead of scales",
        axis.from, axis.from / axis.step);
  }
  for (const PlacesOfElements& way : ways_to_place(mode, axis.from, axis.to, axis.step)) {
    if (way.transformation == as && (way.rounding.empty() || way.rounding == rounding)) return way.axis;
  }
  const bool nearest = mode == Resizing::Mode::nearest;
  if (as == "tf_half_pixel_for_nn" && nearest && rounding == "floor") return {axis.to, axis.step, 0.5 * axis.step};
  refuse(
      "it finds elements by {}{}; expected asymmetric, half_pixel, pytorch_half_pixel or align_corners, and floor, "
      "ceil, "
      "round_prefer_floor or round_prefer_ceil",
      transformation, nearest ? " and " + rounding : "");
}

/// Returns whether two axes give the same maps, up to rounding.
bool takes_the_same(Resizing::Mode mode, const Resizing::Axis& a, const Resizing::Axis& b, int extent) {
  const std::vector<Between> one = elements_of(mode, a, extent);
  const std::vector<Between> other = elements_of(mode, b, extent);
  return std::ranges::equal(one, other, [](const Between& x, const Between& y) {
    constexpr double kRounding = 1e-6;
    return std::abs(x.first + x.weight - y.first - y.weight) < kRounding;
  });
}

/// Returns the fields of the layer: those of an `upsample` if this layer gives the same maps, else those of a `resize`.
std::string fields_of(const Resizing& by, const FeatureShape& in) {
  const bool linear = by.mode == Resizing::Mode::linear;
  const char* mode = linear ? "bilinear" : "nearest";
  const int rows = by.rows.extent / in.height;
  const int columns = by.columns.extent / in.width;
  constexpr int kLargest = 1024;  // of a net file
  const bool whole = rows * in.height == by.rows.extent && columns * in.width == by.columns.extent;
  if (whole && rows <= kLargest && columns <= kLargest) {
    const Resizing usual = resizing_of(Upsampling{rows, columns, linear}, in.height, in.width);
    if (takes_the_same(by.mode, by.rows, usual.rows, in.height) &&
        takes_the_same(by.mode, by.columns, usual.columns, in.width)) {
      return fmt::format("upsample, factor: [{}, {}], mode: {}", rows, columns, mode);
    }
  }
  return fmt::format("resize, size: [{}, {}], mode: {}, step: [{}, {}], start: [{}, {}]", by.rows.extent,
                     by.columns.extent, mode, by.rows.step, by.columns.step, by.rows.start, by.columns.start);
}

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
      for (const std::int64_t axis : axes) some.push_back(before[axis_of(axis, 4)]);
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
  const Value from = maps(node);
  const std::vector<double> scales = scales_of(node, from);
  for (const double scale : scales) {
    if (!(scale > 0.0 && scale <= kMostElements)) {
      refuse("it scales images, channels, rows and columns by {}; expected numbers above 0", fmt::join(scales, ", "));
    }
  }
  if (scales[0] != 1.0 || scales[1] != 1.0) refuse("it scales images or channels; expected rows and columns alone");
  const ScaledAxis rows = scaled(from.maps.height, scales[2]);
  const ScaledAxis columns = scaled(from.maps.width, scales[3]);
  if (scales[2] == 1.0 && scales[3] == 1.0) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  const long values = static_cast<long>(from.maps.channels) * rows.to * columns.to;
  if (values > (1L << 28)) refuse("its output would have {} values for each image; the limit is {}", values, 1L << 28);
  const std::string how = text(node, "mode", "nearest");
  if (how != "nearest" && how != "linear" && how != "bilinear") {
    refuse("its mode is {}; expected nearest or linear", how);
  }
  if (number(node, "antialias", 0) != 0) refuse("antialias is set; expected 0");
  const std::string policy = text(node, "keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && has(node, 3)) refuse("keep_aspect_ratio_policy is {}; expected stretch", policy);
  // Upsample, and Resize before opset 11, had no choice.
  const bool chooses = node.type == "Resize" && graph_.opset >= 11;
  const std::string transformation =
      chooses ? text(node, "coordinate_transformation_mode", "half_pixel") : "asymmetric";
  const std::string rounding = chooses ? text(node, "nearest_mode", "round_prefer_floor") : "floor";
  const Resizing::Mode mode = how == "nearest" ? Resizing::Mode::nearest : Resizing::Mode::linear;
  const Resizing by{mode, axis_of_resize(rows, mode, transformation, rounding),
                    axis_of_resize(columns, mode, transformation, rounding)};
  Value made = builder_.shaped(node.name, fields_of(by, from.maps), from, {from.maps.channels, rows.to, columns.to});
  made.positive = from.positive;
  give(node, std::move(made));
}

}  // namespace convoy::onnx_file
