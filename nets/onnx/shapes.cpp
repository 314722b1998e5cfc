// The operators that change shapes, and what pads and cuts maps.

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {

void Importer::identity(const Node& node) { values_[node.outputs[0]] = passed(node); }

void Importer::shape(const Node& node) {
  const Constant extents{.dims = extents_of(passed(node)), .floats = {}, .integers = {}};
  graph_.constants[node.outputs[0]] = folder_.fold(node, {&extents});
}

void Importer::cast(const Node& node) {
  enum Type { kFloat = 1, kDouble = 11 };
  const std::int64_t to = integer(node, "to", 0);
  if (to != kFloat && to != kDouble) {
    refuse("it converts values that depend on the images to the type {}; Convoy computes in float", to);
  }
  values_[node.outputs[0]] = passed(node);
}

void Importer::expand(const Node& node) {
  const Constant& shape = constant(node, 1, "shape");
  const Extents extents = extents_of(passed(node));
  if (!shape.whole || broadcast(extents, shape.integers) != extents) {
    refuse("it repeats values of the shape {}; Convoy has no layer that does this", shown(extents));
  }
  values_[node.outputs[0]] = passed(node);
}

namespace {

template <class Dims>
Dims without_ones(Dims dims) {
  std::erase(dims, 1);
  return dims;
}

}  // namespace

void Importer::reshape(const Node& node) {
  Value from = passed(node);
  const Extents before = extents_of(from);
  Extents to;
  if (node.type == "Reshape") {
    const Constant& shape = constant(node, 1, "shape");
    if (!shape.whole) refuse("its shape must be integers");
    to = reshaped(node, before, shape.integers);
  } else if (node.type == "Flatten") {
    to = flattened(node, before);
  } else {
    Extents axes = integers(node, "axes", {});
    if (has(node, 1)) axes = constant(node, 1, "axes").integers;
    to = squeezed(node, before, axes);
  }
  if (to.size() < 2 || to[0] != before[0]) {
    refuse("it changes the shape {} to {}; expected the images as the first extent, and others after it", shown(before),
           shown(to));
  }
  const std::vector<int> rest = narrow({to.begin() + 1, to.end()});
  if (rest == from.dims) {
    values_[node.outputs[0]] = from;
    return;
  }
  const bool settles = from.layer == "input" && !builder_.input_settled() && (rest.size() != 3 || from.dims.size() > 2);
  if (settles || from.padded.any() || from.layer != "input") from = value(node, 0);
  const bool in_order = (!from.channels_last || from.is_point()) && from.transposed_from.empty();
  if (rest.size() == 1 && rest[0] == from.size()) {
    values_[node.outputs[0]] = from.flat();
  } else if (in_order && without_ones(rest) == without_ones(from.dims)) {
    from.channels_last = false;
    from.dims = rest;
    values_[node.outputs[0]] = from;
  } else {
    refuse(
        "it changes the shape {} to {}; values may only be flattened, or gain and lose extents of 1{}", shown(before),
        shown(to),
        rest.size() == 4 && from.dims.size() == 3 ? ". A channel shuffle needs a layer that Convoy does not have" : "");
  }
}

void Importer::transpose(const Node& node) {
  Value to = passed(node);
  if (to.padded.any()) to = value(node, 0);
  Extents in_order(to.dims.size() + 1);
  std::iota(in_order.begin(), in_order.end(), 0);
  const Extents order = integers(node, "perm", Extents(in_order.rbegin(), in_order.rend()));
  if (order == in_order) {
    values_[node.outputs[0]] = to;
    return;
  }
  const bool to_front = order == Extents{0, 3, 1, 2};
  if (to.dims.size() != 3 || (!to_front && order != Extents{0, 2, 3, 1})) {
    refuse("its order is {} for values of {}; expected 0,3,1,2 or 0,2,3,1", fmt::join(order, ","),
           shown(extents_of(to)));
  }
  if (to.layer == "input" && to_front && !builder_.input_settled()) {
    imported_.channels_last = true;
    imported_.notices.push_back(
        "the model takes images as (rows, columns, channels); the net takes (channels, rows, columns)");
    to.channels_last = true;
  }
  if (to.channels_last != to_front) refuse("the channels of its input are {} already", to_front ? "first" : "last");
  to.channels_last = !to_front;
  to.dims = to_front ? std::vector<int>{to.dims[2], to.dims[0], to.dims[1]}
                     : std::vector<int>{to.dims[1], to.dims[2], to.dims[0]};
  values_[node.outputs[0]] = to;
}

void Importer::pad(const Node& node) {
  constexpr int kLargestPad = 1 << 16;
  const std::string mode = text(node, "mode", "constant");
  if (mode != "constant") refuse("mode is {}; Convoy pads with constants only", mode);
  std::vector<int> pads = has(node, 1) ? narrow(constant(node, 1, "pads").integers) : ints(node, "pads", {});
  if (has(node, 3)) {
    const Extents axes = constant(node, 3, "axes").integers;
    if (pads.size() != 2 * axes.size()) refuse("it has {} pads for {} axes", pads.size(), axes.size());
    std::vector<int> all(8, 0);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(axis_of(axes[i], 4));
      all[axis] = pads[i];
      all[axis + 4] = pads[i + axes.size()];
    }
    pads = all;
  }
  if (std::ranges::all_of(pads, [](int each) { return each == 0; })) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  Value from = padded_maps(node);
  float filling = static_cast<float>(number(node, "value", 0.0));
  if (has(node, 2)) {
    const std::vector<float>& given = floats(node, 2, "value");
    if (given.size() != 1) refuse("its value has {} numbers; expected 1", given.size());
    filling = given[0];
  }
  if (filling != 0.0F && !(filling <= std::numeric_limits<float>::lowest())) {
    refuse("it pads with {}; expected 0, or minus infinity before a max pooling", filling);
  }
  if (pads.size() != 8 || pads[0] != 0 || pads[4] != 0 ||
      std::ranges::any_of(pads, [](int each) { return each < 0; })) {
    refuse("pads is {}; expected 8 numbers, none below 0, and 0 for the images", fmt::join(pads, " "));
  }
  if (from.padded.any() && from.padded.filling != filling) {
    refuse("it pads with {} around padding with {}; expected the same", filling, from.padded.filling);
  }
  if (pads[1] > 0 || pads[5] > 0) {
    if (from.padded.any()) refuse("it pads channels after a Pad of rows or columns; pad the channels first");
    if (filling != 0.0F) refuse("it pads channels with {}; expected 0", filling);
    const FeatureShape more{from.maps.channels + pads[1] + pads[5], from.maps.height, from.maps.width};
    Value made =
        builder_.shaped(node.name, fmt::format("pad_channels, before: {}, after: {}", pads[1], pads[5]), from, more);
    made.positive = from.positive;
    from = made;
  }
  from.padded.filling = filling;
  for (const auto& [side, index] : {std::pair{0, 2}, {1, 3}, {2, 6}, {3, 7}}) {
    int& padded = from.padded.sides[static_cast<std::size_t>(side)];
    padded += pads[static_cast<std::size_t>(index)];
    if (padded > kLargestPad) refuse("its padding adds up to {}; the limit is {}", padded, kLargestPad);
  }
  give(node, from);
}

void Importer::slice(const Node& node) {
  const Value from = value(node, 0);
  const Extents extents = extents_of(from);
  const bool inputs = has(node, 1);
  const auto list = [&](std::size_t input, const char* attribute, const Extents& otherwise) {
    if (has(node, input)) return constant(node, input, attribute).integers;
    return inputs ? otherwise : integers(node, attribute, otherwise);
  };
  const Extents starts = list(1, "starts", {});
  const Extents ends = list(2, "ends", {});
  Extents in_order(starts.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  const Extents axes = list(3, "axes", in_order);
  const Extents steps = list(4, "steps", Extents(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    refuse("starts, ends, axes and steps have different lengths");
  }
  std::vector<int> strides{1, 1};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axis_of(axes[i], extents.size());
    const std::int64_t extent = extents[static_cast<std::size_t>(axis)];
    const bool whole = (starts[i] == 0 || starts[i] == -extent) && ends[i] >= extent && steps[i] >= 1;
    if (!whole || (steps[i] != 1 && (axis < 2 || extents.size() != 4))) {
      refuse("it takes {} to {} by {} of axis {} of {}; expected all rows and columns, or every n-th of them{}",
             starts[i], ends[i], steps[i], axes[i], shown(extents),
             axis == 1 ? ". Convoy has no layer that takes a part of the channels" : "");
    }
    if (axis > 1 && steps[i] > 1) strides[static_cast<std::size_t>(axis) - 2] = narrow({steps[i]})[0];
  }
  if (strides == std::vector<int>{1, 1}) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  const Value whole = maps(node);
  expect_fit(whole, {1, 1}, strides, {0, 0, 0, 0});
  Value made = builder_.window(node.name, "max_pool", whole, {1, 1}, strides, {0, 0, 0, 0});
  made.positive = whole.positive;
  give(node, std::move(made));
}

}  // namespace convoy::onnx_file
