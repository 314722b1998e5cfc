// The operators that change shapes, and what pads and cuts maps.

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

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
  if (reshape_groups(node, rest)) return;
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
        "it changes the shape {} to {}; values may only be flattened, gain and lose extents of 1, or have their "
        "channels in groups",
        shown(before), shown(to));
  }
}

bool Importer::reshape_groups(const Node& node, const std::vector<int>& to) {
  const Value from = passed(node);
  const std::vector<int> maps{from.maps.channels, from.maps.height, from.maps.width};
  if (from.layer == "input" || from.padded.any() || from.channels_last) return false;
  if (from.shuffle > 0) {
    if (to != maps) {
      refuse("it follows a Transpose of groups of channels; expected the shape {} after the images",
             fmt::join(maps, "x"));
    }
    Value made = builder_.shaped(node.name, fmt::format("shuffle_channels, groups: {}", from.shuffle), from, from.maps);
    made.positive = from.positive;
    give(node, std::move(made));
    return true;
  }
  const auto in_groups = [&](const std::vector<int>& dims) {
    return dims.size() == 4 && dims[0] > 0 && maps[0] % dims[0] == 0 &&
           dims == std::vector<int>{dims[0], maps[0] / dims[0], maps[1], maps[2]};
  };
  Value lists = from;
  lists.dims = from.dims == maps ? to : from.dims;
  if (lists.groups_flattened() && (from.dims == maps || to == maps)) {
    lists.dims = to;
    values_[node.outputs[0]] = lists;
    return true;
  }
  const bool divides = from.dims == maps && in_groups(to);
  if (!divides && !(in_groups(from.dims) && to == maps)) return false;
  Value grouped = from;
  grouped.dims = to;
  give(node, std::move(grouped));
  return true;
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
  if (to.shuffle > 0) refuse("it follows another Transpose of groups of channels; expected a Reshape between them");
  const int groups = to.dims.size() == 4 ? to.dims[0] : 0;
  const bool in_groups = groups > 0 && !to.channels_last && to.maps.channels % groups == 0 &&
                         to.dims == std::vector<int>{groups, to.maps.channels / groups, to.maps.height, to.maps.width};
  if (in_groups && order == Extents{0, 2, 1, 3, 4}) {
    to.shuffle = groups;
    std::swap(to.dims[0], to.dims[1]);
    give(node, std::move(to));
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
    int& padded = from.padded.sides[side];
    padded += pads[index];
    if (padded > kLargestPad) refuse("its padding adds up to {}; the limit is {}", padded, kLargestPad);
  }
  give(node, from);
}

void Importer::slice(const Node& node) {
  const Value from = value(node, 0);
  const Extents extents = extents_of(from);
  for (const auto& [input, what] : {std::pair{1, "starts"}, {2, "ends"}, {3, "axes"}, {4, "steps"}}) {
    const auto index = static_cast<std::size_t>(input);
    if (has(node, index)) constant(node, index, what);  // refuses numbers that depend on the images
  }
  std::vector<int> strides{1, 1};
  std::optional<FilterRange> channels;
  for (const auto& [axis, start, end, step] : sliced_axes(node, constants_of(node), extents.size())) {
    const std::int64_t extent = extents[axis];
    if (axis == 1 && step == 1 && extents.size() == 4 && !from.channels_last) {
      const auto place = [&](std::int64_t at) {
        return std::clamp(at < 0 ? at + extent : at, std::int64_t{0}, extent);
      };
      channels = {static_cast<int>(place(start)), static_cast<int>(place(end) - place(start))};
      if (channels->count < 1) refuse("it takes no channels: {} to {} of {}", start, end, extent);
      continue;
    }
    const bool whole = (start == 0 || start == -extent) && end >= extent && step >= 1;
    if (!whole || (step != 1 && (axis < 2 || extents.size() != 4))) {
      refuse(
          "it takes {} to {} by {} of axis {} of {}; expected all rows and columns, every n-th of them, or a run of "
          "channels",
          start, end, step, axis, shown(extents));
    }
    if (axis > 1 && step > 1) strides[axis - 2] = narrow({step})[0];
  }
  const bool all = !channels || *channels == FilterRange{0, from.dims[0]};
  if (strides == std::vector<int>{1, 1} && all) {
    values_[node.outputs[0]] = passed(node);
    return;
  }
  Value made = maps(node);
  if (channels) made = builder_.slice(node.name, made, *channels);
  if (strides != std::vector<int>{1, 1}) {
    expect_fit(made, {1, 1}, strides, {0, 0, 0, 0});
    const bool positive = made.positive;
    made = builder_.window(node.name, "max_pool", made,
                           {.kernel_h = 1, .kernel_w = 1, .stride_h = strides[0], .stride_w = strides[1], .pad = {}});
    made.positive = positive;
  }
  give(node, std::move(made));
}

void Importer::split(const Node& node) {
  const Value from = maps(node);
  const std::int64_t axis = axis_of(integer(node, "axis", 0), 4);
  if (axis != 1) refuse("it splits axis {} of {}; expected 1, the channels", axis, shown(extents_of(from)));
  Extents counts = integers(node, "split", {});
  if (has(node, 1)) {
    const Constant& given = constant(node, 1, "split");
    if (!given.whole) refuse("its split must be integers");
    counts = given.integers;
  }
  const auto outputs = static_cast<std::int64_t>(node.outputs.size());
  if (counts.empty()) {  // equal parts, of which the last may be smaller
    const std::int64_t each = (from.maps.channels + outputs - 1) / outputs;
    for (std::int64_t i = 0; i < outputs; ++i) {
      counts.push_back(std::min(each, from.maps.channels - i * each));
    }
  }
  const std::vector<int> parts = narrow(counts);
  long total = 0;
  for (const int part : parts) total += part;
  if (std::ranges::any_of(parts, [](int part) { return part < 1; }) || total != from.maps.channels ||
      parts.size() != node.outputs.size()) {
    refuse("it splits {} channels into {} for {} outputs; expected numbers from 1 on, one for each output",
           from.maps.channels, fmt::join(parts, ", "), outputs);
  }
  int first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // An output that no node reads needs no layer.
    if (readers_.contains(node.outputs[i])) give(node, builder_.slice(node.name, from, {first, parts[i]}), i);
    first += parts[i];
  }
}

}  // namespace convoy::onnx_file
