// The operators that make constants or change shapes.

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "nets/onnx/importer.hpp"

namespace convoy::onnx_file {

void Importer::make_constant(const Node& node) {
  const auto found = node.attributes.find("value");
  if (found == node.attributes.end() || !found->second.tensor) refuse(node, "its attribute value must be a tensor");
  graph_.constants[node.outputs[0]] = *found->second.tensor;
}

void Importer::constant_of_shape(const Node& node) {
  const Constant& shape = constant(node, 0, "shape");
  Constant made{.dims = shape.integers, .floats = {0.0F}, .integers = {}};
  const auto found = node.attributes.find("value");
  if (found != node.attributes.end() && found->second.tensor) {
    made.floats = found->second.tensor->floats;
    made.integers = found->second.tensor->integers;
  }
  constexpr std::size_t kMost = std::size_t{1} << 28;  // of all constants of a model together
  std::size_t count = 1;
  for (const std::int64_t extent : made.dims) {
    if (extent < 1 || count > kMost / static_cast<std::size_t>(extent))
      refuse(node, "its shape has an extent of {}", extent);
    count *= static_cast<std::size_t>(extent);
  }
  made_ += count;
  if (made_ > kMost) refuse(node, "the model's computed constants have more than {} values in all", kMost);
  if (!made.floats.empty()) made.floats.assign(count, made.floats[0]);
  if (!made.integers.empty()) made.integers.assign(count, made.integers[0]);
  graph_.constants[node.outputs[0]] = std::move(made);
}

void Importer::identity(const Node& node) {
  if (const Constant* same = constant_if(node, 0)) {
    graph_.constants[node.outputs[0]] = Constant(*same);
    return;
  }
  Value same = value(node, 0);
  readers_[node.outputs[0]] += readers_[node.inputs[0]] - 1;  // change() asks whether a value has one reader
  values_[node.outputs[0]] = std::move(same);
}

void Importer::flatten(const Node& node) {
  if (number(node, "axis", 1) != 1) refuse(node, "axis is {}; expected 1, after the batch", number(node, "axis", 1));
  values_[node.outputs[0]] = value(node, 0).flat();
}

void Importer::reshape(const Node& node) {
  if (const Constant* from = constant_if(node, 0)) {
    Constant same = *from;
    same.dims = node.type == "Reshape" ? reshaped(node, from->dims) : squeezed(node, from->dims);
    graph_.constants[node.outputs[0]] = std::move(same);
    return;
  }
  const Value from = value(node, 0);
  std::vector<std::int64_t> dims{0};  // the batch
  dims.insert(dims.end(), from.dims.begin(), from.dims.end());
  const std::vector<std::int64_t> to = node.type == "Reshape" ? reshaped(node, dims) : squeezed(node, dims);
  if (to.empty() || to[0] != 0) refuse(node, "it changes the batch; expected the first extent unchanged");
  const std::vector<int> rest = narrow({to.begin() + 1, to.end()});
  if (rest == from.dims) {
    values_[node.outputs[0]] = from;
  } else if (rest.size() == 1 && rest[0] == from.size()) {
    values_[node.outputs[0]] = from.flat();
  } else {
    refuse(node, "it changes the shape {} to {}; values may only be flattened", fmt::join(from.dims, "x"),
           fmt::join(rest, "x"));
  }
}

std::vector<std::int64_t> Importer::reshaped(const Node& node, const std::vector<std::int64_t>& dims) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::vector<std::int64_t> to = constant(node, 1, "shape").integers;
  std::int64_t all = 1;
  for (const std::int64_t extent : dims) all *= extent == 0 ? 1 : extent;
  if (!to.empty() && !dims.empty() && dims[0] == 0) to[0] = 0;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && i < dims.size()) to[i] = dims[i];
    if (to[i] > 0) known *= std::min(to[i], kMost);
    if (known > kMost || to[i] < -1) refuse(node, "its shape {} is not valid", fmt::join(to, "x"));
  }
  if (const auto open = std::ranges::find(to, -1); open != to.end()) *open = all / known;
  for (known = 1; const std::int64_t extent : to) known *= extent == 0 ? 1 : extent;
  if (known != all) refuse(node, "its shape {} does not fit {} values", fmt::join(to, "x"), all);
  return to;
}

std::vector<std::int64_t> Importer::squeezed(const Node& node, std::vector<std::int64_t> dims) const {
  std::vector<std::int64_t> axes;
  const auto attribute = node.attributes.find("axes");
  if (has(node, 1)) axes = constant(node, 1, "axes").integers;
  if (attribute != node.attributes.end()) axes = attribute->second.integers;
  if (axes.size() > 8) refuse(node, "it has {} axes; expected at most 8", axes.size());
  const auto rank = static_cast<std::int64_t>(dims.size() + (node.type == "Unsqueeze" ? axes.size() : 0));
  for (std::int64_t& axis : axes) {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) refuse(node, "axis {} is outside the {} extents", axis, rank);
  }
  std::ranges::sort(axes);
  if (node.type == "Unsqueeze") {
    for (const std::int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
    return dims;
  }
  for (std::size_t i = axes.size(); i-- > 0;) {
    if (dims[static_cast<std::size_t>(axes[i])] != 1) refuse(node, "axis {} has an extent other than 1", axes[i]);
    dims.erase(dims.begin() + axes[i]);
  }
  return dims;
}

void Importer::transpose(const Node& node) {
  const auto found = has(node, 0) ? values_.find(node.inputs[0]) : values_.end();
  if (found == values_.end()) refuse(node, "its input is not computed from the images");
  Value to = found->second;
  const std::vector<int> order = integers(node, "perm", {});
  const bool to_front = order == std::vector<int>{0, 3, 1, 2};
  if (to.dims.size() != 3 || (!to_front && order != std::vector<int>{0, 2, 3, 1})) {
    refuse(node, "its order is {}; expected 0,3,1,2 or 0,2,3,1", fmt::join(order, ","));
  }
  if (to.layer == "input" && to_front && !builder_.input_settled()) {
    imported_.channels_last = true;
    imported_.notices.push_back(
        "the model takes images as (rows, columns, channels); the net takes (channels, rows, columns)");
    to.channels_last = true;
  }
  if (to.channels_last != to_front)
    refuse(node, "the channels of its input are {} already", to_front ? "first" : "last");
  to.channels_last = !to_front;
  to.dims = to_front ? std::vector<int>{to.dims[2], to.dims[0], to.dims[1]}
                     : std::vector<int>{to.dims[1], to.dims[2], to.dims[0]};
  values_[node.outputs[0]] = to;
}

void Importer::pad(const Node& node) {
  constexpr int kLargestPad = 1 << 16;
  Value from = maps(node);
  const auto mode = node.attributes.find("mode");
  if (mode != node.attributes.end() && mode->second.text != "constant")
    refuse(node, "mode is {}; expected constant", mode->second.text);
  const std::vector<int> pads = has(node, 1) ? narrow(constant(node, 1, "pads").integers) : integers(node, "pads", {});
  double filling = number(node, "value", 0.0);
  if (const Constant* given = constant_if(node, 2)) filling = given->floats.empty() ? 0.0 : given->floats[0];
  if (filling != 0.0) refuse(node, "it pads with {}; expected 0", filling);
  if (pads.size() != 8 || pads[0] != 0 || pads[4] != 0 ||
      std::ranges::any_of(pads, [](int each) { return each < 0; })) {
    refuse(node, "pads is {}; expected 8 numbers, none below 0, and 0 for the batch", fmt::join(pads, " "));
  }
  if (pads[1] > 0 || pads[5] > 0) {
    if (from.padded != std::array<int, 4>{})
      refuse(node, "it pads channels after a Pad of rows or columns; pad the channels first");
    from = builder_.plain(node.name, fmt::format("pad_channels, before: {}, after: {}", pads[1], pads[5]), from,
                          {from.dims[0] + pads[1] + pads[5], from.dims[1], from.dims[2]});
  }
  for (const auto& [side, index] : {std::pair{0, 2}, {1, 3}, {2, 6}, {3, 7}}) {
    int& padded = from.padded[static_cast<std::size_t>(side)];
    padded += pads[static_cast<std::size_t>(index)];
    if (padded > kLargestPad) refuse(node, "its padding adds up to {}; the limit is {}", padded, kLargestPad);
  }
  const bool for_conv =
      from.padded == std::array<int, 4>{} || std::ranges::all_of(graph_.nodes, [&](const Node& reader) {
        const bool reads = std::ranges::find(reader.inputs, node.outputs[0]) != reader.inputs.end();
        return !reads || reader.type == "Conv";
      });
  if (!for_conv) refuse(node, "an operator other than Conv reads its output; padding can be folded into Conv only");
  give(node, from);
}

void Importer::slice(const Node& node) {
  const Value from = maps(node);
  const bool inputs = has(node, 1);
  const auto list = [&](std::size_t input, const char* attribute, std::vector<int> otherwise) {
    if (has(node, input)) return narrow(constant(node, input, attribute).integers);
    return inputs ? otherwise : integers(node, attribute, std::move(otherwise));
  };
  const std::vector<int> starts = list(1, "starts", {});
  const std::vector<int> ends = list(2, "ends", {});
  std::vector<int> in_order(starts.size());
  std::iota(in_order.begin(), in_order.end(), 0);
  const std::vector<int> axes = list(3, "axes", in_order);
  const std::vector<int> steps = list(4, "steps", std::vector<int>(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    refuse(node, "starts, ends, axes and steps have different lengths");
  }
  std::vector<int> strides{1, 1};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i] < 0 ? axes[i] + 4 : axes[i];
    const bool whole =
        axis >= 1 && axis <= 3 && starts[i] == 0 && ends[i] >= from.dims[static_cast<std::size_t>(axis) - 1];
    if (!whole || steps[i] < 1 || (axis == 1 && steps[i] != 1)) {
      refuse(node, "it takes {} to {} by {} of axis {}; expected all rows and columns, or every n-th of them",
             starts[i], ends[i], steps[i], axes[i]);
    }
    if (axis > 1) strides[static_cast<std::size_t>(axis) - 2] = steps[i];
  }
  give(node, builder_.window(node.name, "max_pool", from, {1, 1}, strides, {0, 0, 0, 0}));
}

}  // namespace convoy::onnx_file
