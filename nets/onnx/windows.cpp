// Convolution and pooling.

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {

std::vector<int> Importer::sides(const Node& node, const Value& from, const std::vector<int>& kernel,
                                 const std::vector<int>& strides) const {
  const std::string how = text(node, "auto_pad", "NOTSET");
  std::vector<int> pads = ints(node, "pads", {0, 0, 0, 0});
  if (pads.size() != 4) refuse("pads has {} numbers; expected 4", pads.size());
  if (how == "VALID") return {0, 0, 0, 0};
  if (how == "SAME_UPPER" || how == "SAME_LOWER") {
    for (std::size_t i = 0; i < 2; ++i) {
      const int extent = from.dims[1 + i] + from.padded.sides[i] + from.padded.sides[i + 2];
      const int outputs = (extent + strides[i] - 1) / strides[i];
      const int total = std::max((outputs - 1) * strides[i] + kernel[i] - extent, 0);
      const int less = total / 2;
      pads[i] = how == "SAME_UPPER" ? less : total - less;
      pads[i + 2] = total - pads[i];
    }
  } else if (how != "NOTSET") {
    refuse("auto_pad is {}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER", how);
  }
  if (std::ranges::any_of(pads, [](int each) { return each < 0; })) {
    refuse("pads is {}; expected no number below 0", fmt::join(pads, " "));
  }
  return pads;
}

std::vector<int> Importer::two(const Node& node, const std::string& attribute, const std::vector<int>& otherwise) {
  std::vector<int> values = ints(node, attribute, otherwise);
  if (values.size() != 2) refuse("{} has {} numbers; expected 2, for rows and columns", attribute, values.size());
  for (const int each : values) {
    if (each < 1) refuse("{} is {}; expected at least 1", attribute, each);
  }
  return values;
}

std::vector<int> Importer::reach_of(const std::vector<int>& kernel, const std::vector<int>& dilations) {
  std::vector<int> reach;
  for (std::size_t i = 0; i < 2; ++i) {
    constexpr int kLargest = 1024;  // of a net file
    if (kernel[i] > kLargest || dilations[i] > kLargest) {
      refuse("its kernel is {} and its dilation {}; the limit is {}", kernel[i], dilations[i], kLargest);
    }
    reach.push_back((kernel[i] - 1) * dilations[i] + 1);
  }
  return reach;
}

void Importer::expect_fit(const Value& from, const std::vector<int>& kernel, const std::vector<int>& strides,
                          const std::vector<int>& pads) {
  constexpr int kLargest = 1024;  // of a net file
  for (std::size_t i = 0; i < 2; ++i) {
    const int extent = from.dims[1 + i];
    if (kernel[i] > kLargest || strides[i] > kLargest) {
      refuse("its kernel is {} and its stride {}; the limit is {}", kernel[i], strides[i], kLargest);
    }
    if (std::max(pads[i], pads[i + 2]) >= kernel[i]) {
      refuse(
          "its padding of {}, with that of a Pad before it, is not smaller than the kernel {}; expected windows that "
          "hold at least one element of the maps",
          fmt::join(pads, " "), fmt::join(kernel, "x"));
    }
    if (extent + pads[i] + pads[i + 2] < kernel[i]) {
      refuse("its kernel {} does not fit into its input of {} with padding {}", fmt::join(kernel, "x"),
             fmt::join(from.dims, "x"), fmt::join(pads, " "));
    }
  }
}

void Importer::conv(const Node& node) {
  const Value from = padded_maps(node);
  const Constant& weights = constant(node, 1, "weights");
  if (weights.dims.size() != 4) refuse("its weights have {} extents; expected 4", weights.dims.size());
  const std::vector<int> extents = narrow(weights.dims);
  const std::int64_t groups = integer(node, "group", 1);
  if (groups < 1 || groups > from.dims[0] || extents[0] % groups != 0) {
    refuse("{} filters and {} channels are not divisible into {} groups", extents[0], from.dims[0], groups);
  }
  if (extents[1] * groups != from.dims[0]) {
    refuse("its weights are for {} channels, but its input has {}", extents[1] * groups, from.dims[0]);
  }
  const std::vector<int> kernel = two(node, "kernel_shape", {extents[2], extents[3]});
  if (kernel != std::vector<int>{extents[2], extents[3]})
    refuse("its kernel_shape differs from the extents of its weights");
  const std::vector<int> dilations = two(node, "dilations", {1, 1});
  const std::vector<int> reach = reach_of(kernel, dilations);
  if (from.padded.any() && from.padded.filling != 0.0F) {
    refuse("a Pad before it pads with {}; convolutions pad with 0", from.padded.filling);
  }
  const std::vector<int> strides = two(node, "strides", {1, 1});
  std::vector<int> pads = sides(node, from, reach, strides);
  for (std::size_t i = 0; i < 4; ++i) pads[i] += from.padded.sides[i];
  expect_fit(from, reach, strides, pads);
  std::vector<float> bias;
  if (has(node, 2)) bias = floats(node, 2, "bias");
  if (has(node, 2) && bias.size() != static_cast<std::size_t>(extents[0]))
    refuse("its bias has {} values; expected {}", bias.size(), extents[0]);
  give_bare(node, builder_.conv(node.name, from, extents, static_cast<int>(groups), strides, pads, dilations,
                                floats(node, 1, "weights"), std::move(bias)));
}

namespace {

/// Whether padding with `filling` gives the same maxima as padding that never wins. Maxima of what is never below 0 do
/// not change by zeros, and no float is below the lowest.
bool never_wins(float filling, bool positive) {
  return filling <= std::numeric_limits<float>::lowest() || (positive && filling == 0.0F);
}

}  // namespace

void Importer::pool(const Node& node) {
  const bool average = node.type == "AveragePool";
  const Value from = padded_maps(node);
  if (from.padded.any() && average && from.padded.filling != 0.0F) {
    refuse("a Pad before it pads with {}; averages can only count zeros", from.padded.filling);
  }
  if (from.padded.any() && !average && !never_wins(from.padded.filling, from.positive)) {
    refuse(
        "a Pad before it pads with {}, which may be the largest element of a window; Convoy's max pooling leaves "
        "padding out, so pad with minus infinity, or behind a Relu with 0",
        from.padded.filling);
  }
  if (node.outputs.size() > 1 && readers_.contains(node.outputs[1]))
    refuse("another node reads its second output, the indices; Convoy does not compute them");
  const std::vector<int> kernel = two(node, "kernel_shape", {});
  const std::vector<int> dilations = two(node, "dilations", {1, 1});
  const std::vector<int> reach = reach_of(kernel, dilations);
  if (average && reach != kernel) {
    refuse("dilations is {}; Convoy's average pooling has no dilation", fmt::join(dilations, " "));
  }
  const std::vector<int> strides = two(node, "strides", {1, 1});
  std::vector<int> pads = sides(node, from, reach, strides);
  const bool own_pads = std::ranges::any_of(pads, [](int pad) { return pad != 0; });
  const bool counts = number(node, "count_include_pad", 0) != 0;
  if (average && from.padded.any() && own_pads && !counts) {
    refuse(
        "a Pad comes before it, whose elements count in the averages, and its own padding does not; expected one of "
        "both");
  }
  // The elements of a Pad are elements of its input.
  const bool counted = average && (from.padded.any() || (own_pads && counts));
  for (std::size_t i = 0; i < 4; ++i) pads[i] += from.padded.sides[i];
  if (number(node, "ceil_mode", 0) != 0) {
    for (std::size_t i = 0; i < 2; ++i) {
      const int extent = from.dims[1 + i];
      const int room = extent + pads[i] + pads[i + 2] - reach[i];
      const int next = (room / strides[i] + 1) * strides[i];
      // A window that would start in the padding behind the maps is ignored, as in PyTorch.
      if (room < 0 || room % strides[i] == 0 || next >= extent + pads[i]) continue;
      if (text(node, "auto_pad", "NOTSET") != "NOTSET") {
        refuse("ceil_mode is set together with auto_pad; versions of ONNX differ in what this means, so give pads");
      }
      if (counted) {
        refuse(
            "its last windows reach beyond the padding, where ceil_mode is set, and padding counts in the averages; "
            "Convoy divides by the same number everywhere, so set ceil_mode to 0");
      }
      // What such a window has beyond the maps counts in no average, even where padding does.
      pads[i + 2] += strides[i] - room % strides[i];
    }
  }
  expect_fit(from, reach, strides, pads);
  const Pooling window{.kernel_h = kernel[0],
                       .kernel_w = kernel[1],
                       .stride_h = strides[0],
                       .stride_w = strides[1],
                       .pad = {pads[0], pads[1], pads[2], pads[3]},
                       .dilation_h = dilations[0],
                       .dilation_w = dilations[1]};
  if (has_empty_window(window, from.maps.height, from.maps.width)) {
    refuse("dilations is {}, so that a window has no element of its input of {}", fmt::join(dilations, " "),
           fmt::join(from.dims, "x"));
  }
  const char* type = !average ? "max_pool" : counted ? "average_pool, count_padding: true" : "average_pool";
  Value made = builder_.window(node.name, type, from, window);
  made.positive = from.positive;
  give(node, std::move(made));
}

Value Importer::pool_all(const Node& node, const Value& from, bool rows, bool columns) {
  const bool average = node.type == "GlobalAveragePool" || node.type == "ReduceMean";
  const FeatureShape& in = from.maps;
  const FeatureShape out{in.channels, rows ? 1 : in.height, columns ? 1 : in.width};
  Value made;
  if (average && rows && columns) {
    made = builder_.shaped(node.name, "global_average_pool", from, out);
  } else {
    const std::vector<int> kernel{rows ? in.height : 1, columns ? in.width : 1};
    constexpr int kLargest = 1024;  // of a net file
    if (std::max(kernel[0], kernel[1]) > kLargest) {
      refuse("it pools maps of {}x{}; the limit for a kernel is {}", in.height, in.width, kLargest);
    }
    made = builder_.shaped(
        node.name, fmt::format("{}, kernel: [{}, {}]", average ? "average_pool" : "max_pool", kernel[0], kernel[1]),
        from, out);
  }
  made.positive = from.positive;
  return made;
}

void Importer::global_pool(const Node& node) { give(node, pool_all(node, maps(node), true, true)); }

void Importer::reduce(const Node& node) {
  const Value from = value(node, 0);
  std::vector<std::int64_t> axes = integers(node, "axes", {});
  if (has(node, 1)) {
    const Constant& given = constant(node, 1, "axes");
    if (!given.whole) refuse("its axes must be integers");
    axes = given.integers;
  }
  const bool keeps = integer(node, "keepdims", 1) != 0;
  if (axes.empty() && integer(node, "noop_with_empty_axes", 0) != 0) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  if (axes.empty()) refuse("it has no axes, so that it joins all images; expected the axes of rows and columns");
  std::set<std::int64_t> all;
  for (const std::int64_t axis : axes) all.insert(axis_of(axis, from.dims.size() + 1));
  const std::size_t first = from.channels_last ? 1 : 2;  // the axis of the rows
  const auto is_spatial = [&](std::int64_t axis) {
    return axis == static_cast<std::int64_t>(first) || axis == static_cast<std::int64_t>(first) + 1;
  };
  if (from.dims != from.maps_as_seen() || !std::ranges::all_of(all, is_spatial)) {
    refuse("it reduces the axes {} of {}; expected rows and columns of maps", fmt::join(all, ","),
           shown(extents_of(from)));
  }
  const bool rows = all.contains(static_cast<std::int64_t>(first));
  const bool columns = all.contains(static_cast<std::int64_t>(first) + 1);
  if (!keeps && from.channels_last && !(rows && columns)) {
    refuse("it reduces one axis of maps whose channels come last, and takes it out; expected keepdims 1");
  }
  Value made = pool_all(node, from, rows, columns);
  made.dims = from.dims;
  made.channels_last = from.channels_last && (keeps || !made.is_point());
  for (std::size_t i = 2; i-- > 0;) {
    const std::size_t place = first - 1 + i;
    if (i == 0 ? !rows : !columns) continue;
    if (keeps) made.dims[place] = 1;
    if (!keeps) made.dims.erase(made.dims.begin() + static_cast<std::ptrdiff_t>(place));
  }
  give(node, std::move(made));
}

}  // namespace convoy::onnx_file
