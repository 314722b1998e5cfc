// Norms of one sample, and slopes for each channel.

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {

std::vector<float> Importer::for_channels(const Node& node, std::size_t input, const char* what, const Value& from) {
  const Constant& given = constant(node, input, what);
  if (given.whole || given.floats.empty()) refuse("its {} must hold floating-point numbers", what);
  const Extents extents(from.dims.begin(), from.dims.end());
  Extents dims = given.dims;
  if (dims.size() == extents.size() + 1 && dims[0] == 1) dims.erase(dims.begin());  // all images have the same numbers
  if (dims.size() > extents.size() || broadcast(dims, extents) != extents) {
    refuse("its {} has the shape {}; expected one that is broadcast to {}", what, shown(given.dims), shown(extents));
  }
  // The constant's own elements are looked at, of which there may be fewer than of the maps.
  Extents own(extents.size() - dims.size(), 1);
  own.insert(own.end(), dims.begin(), dims.end());
  const std::size_t axis = from.channels_last ? own.size() - 1 : 0;
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < own.size(); ++i) inner *= static_cast<std::size_t>(own[i]);
  const auto lists = static_cast<std::size_t>(own[axis]);
  std::vector<float> numbers(lists);
  std::vector<bool> known(lists, false);
  for (std::size_t i = 0; i < given.floats.size(); ++i) {
    const std::size_t list = i / inner % lists;
    const float number = given.floats[i];
    if (known[list] && number != numbers[list]) {
      refuse("its {} differs between the elements of a channel; expected one number for each channel", what);
    }
    numbers[list] = number;
    known[list] = true;
  }
  if (lists == 1) numbers.assign(static_cast<std::size_t>(from.maps.channels), numbers[0]);
  return numbers;
}

void Importer::prelu(const Node& node) {
  const Value from = value(node, 0);
  const bool maps = from.dims == from.maps_as_seen() || (from.is_point() && from.dims.size() == 1);
  if (maps) {
    return give(node, builder_.prelu(node.name, from, for_channels(node, 1, "slope", from)));
  }
  const std::vector<float>& slopes = floats(node, 1, "slope");
  const float slope = slopes.empty() ? 0.0F : slopes[0];
  if (slopes.empty() || std::ranges::any_of(slopes, [&](float each) { return each != slope; })) {
    refuse("it has several slopes for flattened maps; expected maps, outputs of a dense layer, or one slope for all");
  }
  if (!(slope >= 0.0F && slope <= 100.0F))
    refuse("its slope is {}; expected 0 to 100 for other values than maps", slope);
  give(node, builder_.plain(node.name, fmt::format("leaky_relu, slope: {:.9g}", slope), from));
}

std::string Importer::norm_fields(const Node& node, const Value& from, const std::set<std::int64_t>& axes) {
  const double epsilon = number(node, "epsilon", 1e-5);
  if (!(epsilon >= 0.0 && epsilon <= 1.0)) refuse("its epsilon is {}; expected 0 to 1", epsilon);
  const bool point = from.is_point() && from.dims.size() == 1;
  if (from.dims != from.maps_as_seen() && !point) {
    refuse("it normalises values of the shape {}; expected maps", shown(extents_of(from)));
  }
  const std::int64_t channels = from.channels_last ? static_cast<std::int64_t>(from.dims.size()) : 1;
  std::set<std::int64_t> spatial;
  for (std::size_t axis = 1; axis <= from.dims.size(); ++axis) {
    if (std::cmp_not_equal(axis, channels)) spatial.insert(static_cast<std::int64_t>(axis));
  }
  std::set<std::int64_t> all = spatial;
  all.insert(channels);
  std::string type;
  if (axes == std::set{channels}) {
    type = "layer_norm";
  } else if (axes == all) {
    type = "group_norm, groups: 1";
  } else if (axes == spatial) {
    type = fmt::format("group_norm, groups: {}", from.maps.channels);
  } else {
    refuse(
        "it normalises the axes {} of {}; Convoy normalises the channels at each position, whole maps of groups of "
        "channels, or all of an image's maps",
        fmt::join(axes, ","), shown(extents_of(from)));
  }
  return fmt::format("{}, epsilon: {:.9g}", type, epsilon);
}

void Importer::layer_norm(const Node& node) {
  const Value from = value(node, 0);
  const std::size_t rank = from.dims.size() + 1;
  std::set<std::int64_t> axes;
  for (const std::int64_t axis : integers(node, "axes", {})) axes.insert(axis_of(axis, rank));
  if (axes.empty()) {
    const std::int64_t first = axis_of(integer(node, "axis", -1), rank);
    for (std::int64_t axis = first; std::cmp_less(axis, rank); ++axis) axes.insert(axis);
  }
  const std::string fields = norm_fields(node, from, axes);
  if (!has(node, 1)) {
    if (has(node, 2)) refuse("it has a bias without a scale; expected both");
    return give_bare(node, builder_.norm(node.name, fields, from, {}, {}));
  }
  std::vector<float> terms(static_cast<std::size_t>(from.maps.channels), 0.0F);
  if (has(node, 2)) terms = for_channels(node, 2, "bias", from);
  give_bare(node, builder_.norm(node.name, fields, from, for_channels(node, 1, "scale", from), std::move(terms)));
}

namespace {

/// Repeats each number for the channels of its group.
std::vector<float> spread(const std::vector<float>& numbers, int channels) {
  std::vector<float> all;
  const std::size_t each = static_cast<std::size_t>(channels) / numbers.size();
  for (const float number : numbers) all.insert(all.end(), each, number);
  return all;
}

bool are(const std::vector<float>& numbers, float expected) {
  return std::ranges::all_of(numbers, [&](float each) { return each == expected; });
}

}  // namespace

void Importer::norm_of_groups(const Node& node, const Value& from, int groups, bool of_groups) {
  std::vector<float> factors = floats(node, 1, "scale");
  std::vector<float> terms = floats(node, 2, "bias");
  const auto expected = static_cast<std::size_t>(of_groups ? groups : from.maps.channels);
  if (factors.size() != expected || terms.size() != expected) {
    refuse("its scale has {} values and its bias {}; expected {}", factors.size(), terms.size(), expected);
  }
  const double epsilon = number(node, "epsilon", 1e-5);
  if (!(epsilon >= 0.0 && epsilon <= 1.0)) refuse("its epsilon is {}; expected 0 to 1", epsilon);
  const std::string fields = fmt::format("group_norm, groups: {}, epsilon: {:.9g}", groups, epsilon);
  // Exporters write ones and zeros for a norm that is not affine, and for the first half of one whose factors follow.
  if (are(factors, 1.0F) && are(terms, 0.0F)) factors.clear(), terms.clear();
  if (!factors.empty()) factors = spread(factors, from.maps.channels), terms = spread(terms, from.maps.channels);
  Value made = builder_.norm(node.name, fields, from, std::move(factors), std::move(terms));
  made.dims = from.dims;
  give_bare(node, std::move(made));
}

void Importer::group_norm(const Node& node) {
  const Value from = maps(node);
  const std::int64_t groups = integer(node, "num_groups", 0);
  if (groups < 1 || groups > from.maps.channels || from.maps.channels % groups != 0) {
    refuse("{} channels are not divisible into {} groups", from.maps.channels, groups);
  }
  // Before opset 21 there was a number for each group, but PyTorch writes one for each channel with any opset.
  const bool of_channels = graph_.opset >= 21 || std::cmp_equal(floats(node, 1, "scale").size(), from.maps.channels);
  norm_of_groups(node, from, static_cast<int>(groups), !of_channels);
}

void Importer::instance_norm(const Node& node) {
  const Value from = value(node, 0);
  if (from.groups_flattened()) return norm_of_groups(node, from, from.dims[0], true);
  expect_maps(from);
  norm_of_groups(node, from, from.maps.channels, false);
}

}  // namespace convoy::onnx_file
