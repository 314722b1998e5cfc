// Folds the operators that move elements of constants.

#include "nets/onnx/fold.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace convoy::onnx_file {
namespace {

constexpr std::size_t kMostFolded = std::size_t{1} << 28;          // of all folded constants of a model together
constexpr std::size_t kMostFoldedIntegers = std::size_t{1} << 20;  // of one constant
constexpr std::size_t kMostFoldedExtents = 16;

/// A copy of `from` with other extents of the same product.
Constant with_dims(const Constant& from, Extents dims) {
  Constant to = from;
  to.dims = std::move(dims);
  return to;
}

/// Calls `what` with the list of values of each of the constants, which hold the same kind.
template <class What>
void on_values(Constant& to, const Constant& from, What what) {
  if (from.whole) {
    what(to.integers, from.integers);
  } else {
    what(to.floats, from.floats);
  }
}

}  // namespace

const Constant& input_of(const Inputs& inputs, std::size_t index) {
  if (index >= inputs.size() || inputs[index] == nullptr) refuse("its input number {} is missing", index + 1);
  return *inputs[index];
}

const Extents& integers_of(const Inputs& inputs, std::size_t index) {
  const Constant& input = input_of(inputs, index);
  if (!input.whole) refuse("its input number {} must hold integers", index + 1);
  return input.integers;
}

Extents strides_of(const Extents& dims) {
  Extents strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Extents broadcast_strides(const Extents& dims, const Extents& to) {
  const Extents own = strides_of(dims);
  Extents strides(to.size(), 0);
  const std::size_t before = to.size() - dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) strides[before + i] = dims[i] == 1 ? 0 : own[i];
  return strides;
}

Extents broadcast(const Extents& a, const Extents& b) {
  Extents all(std::max(a.size(), b.size()), 1);
  for (const Extents* dims : {&a, &b}) {
    const std::size_t before = all.size() - dims->size();
    for (std::size_t i = 0; i < dims->size(); ++i) {
      std::int64_t& extent = all[before + i];
      if ((*dims)[i] == 1 || (*dims)[i] == extent) continue;
      if (extent != 1) refuse("its inputs have the shapes {} and {}, which do not fit", shown(a), shown(b));
      extent = (*dims)[i];
    }
  }
  return all;
}

void Folder::spend(const Extents& dims, bool whole) {
  std::size_t count = 1;
  if (dims.size() > kMostFoldedExtents)
    refuse("it makes a constant of {} extents; the limit is {}", dims.size(), kMostFoldedExtents);
  for (const std::int64_t extent : dims) {
    if (extent == kBatch) refuse("it makes a constant for each image; a net has the same constants for all images");
    if (extent < 0) refuse("it makes a constant with an extent of {}", extent);
    if (extent == 0) return;
  }
  const std::size_t most = whole ? kMostFoldedIntegers : kMostFolded;
  for (const std::int64_t extent : dims) {
    if (count > most / static_cast<std::size_t>(extent)) {
      refuse("it makes a constant of the shape {}; the limit is {} {}", shown(dims), most,
             whole ? "integers" : "values");
    }
    count *= static_cast<std::size_t>(extent);
  }
  spent_ += whole ? 2 * count : count;
  if (spent_ > kMostFolded) refuse("the model's computed constants have more than {} values in all", kMostFolded);
}

Constant Folder::walked(const Constant& from, Extents dims, const Extents& strides, std::int64_t first) {
  spend(dims, from.whole);
  Constant to{.dims = std::move(dims), .floats = {}, .integers = {}, .whole = from.whole};
  on_values(to, from, [&](auto& made, const auto& values) {
    walk<1>(to.dims, {strides}, {first}, [&](const auto& places) { made.push_back(values[places[0]]); });
  });
  return to;
}

Constant Folder::made(const Node& node, const Inputs&) {
  const auto& attributes = node.attributes;
  const auto list = [](const Attribute& from, bool scalar) {
    Constant to{.dims = {}, .floats = from.floats, .integers = from.integers, .whole = !from.integers.empty()};
    if (!scalar) to.dims = {static_cast<std::int64_t>(to.size())};
    return to;
  };
  for (const auto& [name, attribute] : attributes) {
    if (name == "value" && attribute.tensor) return *attribute.tensor;
    if (name == "value_float" || name == "value_int") return list(attribute, true);
    if (name == "value_floats") return list(attribute, false);
    if (name == "value_ints") {
      Constant to = list(attribute, false);
      to.whole = true;
      return to;
    }
  }
  refuse("its value must be a tensor, numbers or a list of numbers");
}

Constant Folder::filled(const Node& node, const Inputs& inputs) {
  Constant to{.dims = integers_of(inputs, 0), .floats = {0.0F}, .integers = {}};
  const auto found = node.attributes.find("value");
  if (found != node.attributes.end() && found->second.tensor) {
    to.floats = found->second.tensor->floats;
    to.integers = found->second.tensor->integers;
    to.whole = found->second.tensor->whole;
    if (to.size() != 1) refuse("its value has {} elements; expected 1", to.size());
  }
  spend(to.dims, to.whole);
  std::size_t count = 1;
  for (const std::int64_t extent : to.dims) count *= static_cast<std::size_t>(extent);
  if (to.whole) {
    to.integers.assign(count, to.integers[0]);
  } else {
    to.floats.assign(count, to.floats[0]);
  }
  return to;
}

Constant Folder::same(const Node&, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  spend(from.dims, from.whole);
  return from;
}

Constant Folder::shaped(const Node& node, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  spend(from.dims, from.whole);
  if (node.type == "Reshape") return with_dims(from, reshaped(node, from.dims, integers_of(inputs, 1)));
  if (node.type == "Flatten") return with_dims(from, flattened(node, from.dims));
  const bool given = inputs.size() > 1 && inputs[1] != nullptr;
  return with_dims(from, squeezed(node, from.dims, given ? integers_of(inputs, 1) : integers(node, "axes", {})));
}

Constant Folder::gathered(const Node& node, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  const Constant& indices = input_of(inputs, 1);
  if (from.dims.empty()) refuse("it takes an element of a single number");
  const std::int64_t axis = axis_of(integer(node, "axis", 0), from.dims.size());
  const auto at = from.dims.begin() + axis;
  Extents dims(from.dims.begin(), at);
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), at + 1, from.dims.end());
  spend(dims, from.whole);
  const std::int64_t inner = std::accumulate(at + 1, from.dims.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t outer = std::accumulate(from.dims.begin(), at, std::int64_t{1}, std::multiplies<>());
  Constant to{.dims = std::move(dims), .floats = {}, .integers = {}, .whole = from.whole};
  on_values(to, from, [&](auto& made, const auto& values) {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t index : integers_of(inputs, 1)) {
        if (index < 0) index += *at;
        if (index < 0 || index >= *at) refuse("its index is outside of the {} elements of axis {}", *at, axis);
        const auto first = values.begin() + (o * *at + index) * inner;
        made.insert(made.end(), first, first + inner);
      }
    }
  });
  return to;
}

Constant Folder::joined(const Node& node, const Inputs& inputs) {
  const Constant& first = input_of(inputs, 0);
  const std::int64_t axis = axis_of(integer(node, "axis", 1), first.dims.size());
  Constant to{.dims = first.dims, .floats = {}, .integers = {}, .whole = first.whole};
  to.dims[axis] = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Extents other = input_of(inputs, i).dims;
    if (input_of(inputs, i).whole != first.whole || other.size() != first.dims.size()) {
      refuse("its constants differ in type or in their number of extents");
    }
    const auto along = static_cast<std::size_t>(axis);
    to.dims[along] += std::exchange(other[along], first.dims[along]);
    if (other != first.dims) refuse("its constants differ in an extent other than axis {}", axis);
  }
  spend(to.dims, to.whole);
  const std::int64_t outer =
      std::accumulate(to.dims.begin(), to.dims.begin() + axis, std::int64_t{1}, std::multiplies<>());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Constant* each : inputs) {
      const auto block = static_cast<std::int64_t>(each->size()) / std::max(outer, std::int64_t{1});
      on_values(to, *each, [&](auto& made, const auto& values) {
        made.insert(made.end(), values.begin() + o * block, values.begin() + (o + 1) * block);
      });
    }
  }
  return to;
}

Constant Folder::transposed(const Node& node, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  Extents order(from.dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  order = integers(node, "perm", order);
  Extents sorted = order;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != from.dims.size() || sorted[i] != static_cast<std::int64_t>(i)) {
      refuse("its order {} is none of {} extents", fmt::join(order, ","), from.dims.size());
    }
  }
  if (order.size() != from.dims.size())
    refuse("its order has {} numbers for {} extents", order.size(), from.dims.size());
  const Extents own = strides_of(from.dims);
  Extents dims;
  Extents strides;
  for (const std::int64_t axis : order) {
    dims.push_back(from.dims[axis]);
    strides.push_back(own[axis]);
  }
  return walked(from, std::move(dims), strides, 0);
}

Constant Folder::expanded(const Node&, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  const Extents dims = broadcast(from.dims, integers_of(inputs, 1));
  spend(dims, from.whole);
  return walked(from, dims, broadcast_strides(from.dims, dims), 0);
}

std::vector<SlicedAxis> sliced_axes(const Node& node, const Inputs& inputs, std::size_t rank) {
  const auto list = [&](std::size_t index, const char* attribute, Extents otherwise) {
    if (index < inputs.size() && inputs[index] != nullptr) return integers_of(inputs, index);
    return inputs.size() > 1 ? otherwise : integers(node, attribute, std::move(otherwise));
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
  std::vector<SlicedAxis> all;
  std::vector<bool> cut(rank, false);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axis_of(axes[i], rank));
    if (steps[i] == 0 || cut[axis]) refuse("it cuts axis {} twice, or by steps of 0", axis);
    cut[axis] = true;
    all.push_back({axis, starts[i], ends[i], steps[i]});
  }
  return all;
}

Constant Folder::sliced(const Node& node, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  Extents dims = from.dims;
  Extents strides = strides_of(from.dims);
  std::int64_t first = 0;
  for (const SlicedAxis& cut : sliced_axes(node, inputs, dims.size())) {
    if (cut.start == kBatch || cut.end == kBatch || cut.step == kBatch) {
      refuse("it cuts a constant by the number of images");
    }
    const std::int64_t extent = dims[cut.axis];
    if (extent == 0) continue;
    const std::int64_t step = std::clamp(cut.step, -(std::int64_t{1} << 31), std::int64_t{1} << 31);
    const auto within = [&](std::int64_t place, std::int64_t low, std::int64_t high) {
      return std::clamp(place < 0 ? place + extent : place, low, high);
    };
    const std::int64_t start = step > 0 ? within(cut.start, 0, extent) : within(cut.start, 0, extent - 1);
    const std::int64_t end = step > 0 ? within(cut.end, 0, extent) : within(cut.end, -1, extent - 1);
    const std::int64_t span = step > 0 ? end - start : start - end;
    const std::int64_t by = step > 0 ? step : -step;
    dims[cut.axis] = span <= 0 ? 0 : (span + by - 1) / by;
    first += dims[cut.axis] == 0 ? 0 : start * strides[cut.axis];
    strides[cut.axis] *= dims[cut.axis] > 1 ? step : 0;
  }
  return walked(from, std::move(dims), strides, first);
}

Constant Folder::shape(const Node& node, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  Constant to{.dims = {}, .floats = {}, .integers = {}, .whole = true};
  if (node.type == "Size") {
    to.integers = {static_cast<std::int64_t>(from.size())};
    return to;
  }
  const auto rank = static_cast<std::int64_t>(from.dims.size());
  const auto within = [&](std::int64_t place) {
    return std::clamp(place < 0 ? place + rank : place, std::int64_t{0}, rank);
  };
  const std::int64_t start = within(integer(node, "start", 0));
  const std::int64_t end = std::max(start, within(integer(node, "end", rank)));
  to.integers.assign(from.dims.begin() + start, from.dims.begin() + end);
  to.dims = {end - start};
  return to;
}

Folder::Fold Folder::find(const std::string& type) {
  static const std::map<std::string, Fold> folds{{"Abs", &Folder::of_one},         {"Add", &Folder::of_two},
                                                 {"And", &Folder::of_two},         {"Cast", &Folder::cast},
                                                 {"Ceil", &Folder::of_one},        {"Concat", &Folder::joined},
                                                 {"Constant", &Folder::made},      {"ConstantOfShape", &Folder::filled},
                                                 {"Div", &Folder::of_two},         {"Equal", &Folder::of_two},
                                                 {"Expand", &Folder::expanded},    {"Flatten", &Folder::shaped},
                                                 {"Floor", &Folder::of_one},       {"Gather", &Folder::gathered},
                                                 {"Greater", &Folder::of_two},     {"GreaterOrEqual", &Folder::of_two},
                                                 {"Identity", &Folder::same},      {"Less", &Folder::of_two},
                                                 {"LessOrEqual", &Folder::of_two}, {"Max", &Folder::of_several},
                                                 {"Min", &Folder::of_several},     {"Mod", &Folder::of_two},
                                                 {"Mean", &Folder::of_several},    {"Mul", &Folder::of_two},
                                                 {"Neg", &Folder::of_one},         {"Not", &Folder::of_one},
                                                 {"Or", &Folder::of_two},          {"Pow", &Folder::of_two},
                                                 {"Range", &Folder::range},        {"Reciprocal", &Folder::of_one},
                                                 {"ReduceMax", &Folder::reduced},  {"ReduceMean", &Folder::reduced},
                                                 {"ReduceMin", &Folder::reduced},  {"ReduceProd", &Folder::reduced},
                                                 {"ReduceSum", &Folder::reduced},  {"Reshape", &Folder::shaped},
                                                 {"Shape", &Folder::shape},        {"Size", &Folder::shape},
                                                 {"Slice", &Folder::sliced},       {"Sqrt", &Folder::of_one},
                                                 {"Squeeze", &Folder::shaped},     {"Sub", &Folder::of_two},
                                                 {"Sum", &Folder::of_several},     {"Transpose", &Folder::transposed},
                                                 {"Unsqueeze", &Folder::shaped},   {"Where", &Folder::chosen}};
  const auto found = folds.find(type);
  return found == folds.end() ? nullptr : found->second;
}

Constant Folder::fold(const Node& node, const Inputs& inputs) {
  const Fold found = find(node.type);
  if (found == nullptr) {
    refuse(
        "all its inputs are constants, and Convoy does not compute constants by this operator; simplify the model, "
        "as with onnxruntime's or onnxsim's constant folding");
  }
  return (this->*found)(node, inputs);
}

}  // namespace convoy::onnx_file
