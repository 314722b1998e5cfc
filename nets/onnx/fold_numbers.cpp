// Folds the operators that compute with constants, and the rules of shapes.

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>

#include "nets/onnx/fold.hpp"

namespace convoy::onnx_file {
namespace {

[[noreturn]] void refuse_batch() {
  refuse(
      "it computes with the number of images, which is free in this model; export the model with a fixed number of "
      "images, such as 1");
}

[[noreturn]] void refuse_overflow() { refuse("its integers are too large"); }

// ---- two integers --------------------------------------------------------------------------------------------------

std::int64_t divided(std::int64_t a, std::int64_t b) {
  if (b == 0) refuse("it divides an integer by 0");
  if (b == -1 && a == std::numeric_limits<std::int64_t>::min()) refuse_overflow();
  return a / b;  // ONNX rounds towards 0, as C++ does
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 62) refuse("its exponent is {}; expected 0 to 62", exponent);
  std::int64_t product = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(product, base, &product)) refuse_overflow();
  }
  return product;
}

/// The result of an operator on numbers of images, where it is the same for all numbers from 1 on.
std::int64_t of_batch(const std::string& type, std::int64_t a, std::int64_t b) {
  const bool both = a == b;
  const std::int64_t other = a == kBatch ? b : a;
  const bool positive = !both && other >= 1;
  if (type == "Mul" && other == 1) return kBatch;
  if (type == "Mul" && other == 0) return 0;
  if (type == "Add" && other == 0) return kBatch;
  if ((type == "Sub" && b == 0) || (type == "Div" && b == 1)) return kBatch;
  if (type == "Div" && both) return 1;
  if (type == "Sub" && both) return 0;
  if ((type == "Max" && (both || other <= 1)) || (type == "Min" && both)) return kBatch;
  if (type == "Min" && other <= 1) return other;
  if (type == "Equal" && (both || !positive)) return both ? 1 : 0;
  if (type == "Greater" && a == kBatch && b < 1) return 1;
  if (type == "Less" && b == kBatch && a < 1) return 1;
  refuse_batch();
}

}  // namespace

std::int64_t of_integers(const std::string& type, std::int64_t a, std::int64_t b, bool sign_of_dividend) {
  if (a == kBatch || b == kBatch) return of_batch(type, a, b);
  std::int64_t result = 0;
  const auto checked = [&](bool overflow) { return overflow ? throw Refused{"its integers are too large"} : result; };
  if (type == "Add") return checked(__builtin_add_overflow(a, b, &result));
  if (type == "Sub") return checked(__builtin_sub_overflow(a, b, &result));
  if (type == "Mul") return checked(__builtin_mul_overflow(a, b, &result));
  if (type == "Div") return divided(a, b);
  if (type == "Mod") {
    const std::int64_t rest = a - divided(a, b) * b;
    return !sign_of_dividend && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  if (type == "Pow") return power(a, b);
  if (type == "Min") return std::min(a, b);
  if (type == "Max") return std::max(a, b);
  if (type == "Equal") return a == b ? 1 : 0;
  if (type == "Less") return a < b ? 1 : 0;
  if (type == "LessOrEqual") return a <= b ? 1 : 0;
  if (type == "Greater") return a > b ? 1 : 0;
  if (type == "GreaterOrEqual") return a >= b ? 1 : 0;
  if (type == "And") return a != 0 && b != 0 ? 1 : 0;
  return a != 0 || b != 0 ? 1 : 0;
}

namespace {

// ---- two floats ----------------------------------------------------------------------------------------------------

using OfFloats = float (*)(float, float);

OfFloats of_floats(const std::string& type, bool sign_of_dividend) {
  if (type == "Mod" && sign_of_dividend) return [](float a, float b) { return std::fmod(a, b); };
  static const std::map<std::string, OfFloats> all{
      {"Add", [](float a, float b) { return a + b; }},
      {"Sub", [](float a, float b) { return a - b; }},
      {"Mul", [](float a, float b) { return a * b; }},
      {"Div", [](float a, float b) { return a / b; }},
      {"Pow", [](float a, float b) { return std::pow(a, b); }},
      {"Min", [](float a, float b) { return std::isnan(a) || a < b ? a : b; }},
      {"Max", [](float a, float b) { return std::isnan(a) || a > b ? a : b; }},
      {"Equal", [](float a, float b) { return a == b ? 1.0F : 0.0F; }},
      {"Less", [](float a, float b) { return a < b ? 1.0F : 0.0F; }},
      {"LessOrEqual", [](float a, float b) { return a <= b ? 1.0F : 0.0F; }},
      {"Greater", [](float a, float b) { return a > b ? 1.0F : 0.0F; }},
      {"GreaterOrEqual", [](float a, float b) { return a >= b ? 1.0F : 0.0F; }}};
  const auto found = all.find(type);
  if (found == all.end()) refuse("its inputs are floating-point numbers; expected integers");
  return found->second;
}

bool compares(const std::string& type) {
  static const std::vector<std::string> all{"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
  return std::ranges::count(all, type) > 0;
}

std::int64_t truncated(float value) {
  // The comparison is false for NaN.
  if (!(std::abs(value) < 9.2e18F)) refuse("its value {} is no integer", value);
  return static_cast<std::int64_t>(value);
}

}  // namespace

// ---- shapes --------------------------------------------------------------------------------------------------------

std::string shown(const Extents& dims) {
  std::string words;
  for (const std::int64_t extent : dims) {
    words += (words.empty() ? "" : "x") + (extent == kBatch ? std::string("N") : std::to_string(extent));
  }
  return words.empty() ? "of no extents" : words;
}

std::int64_t axis_of(std::int64_t axis, std::size_t rank) {
  const auto extents = static_cast<std::int64_t>(rank);
  if (axis < -extents || axis >= extents) refuse("axis {} is outside of the {} extents", axis, rank);
  return axis < 0 ? axis + extents : axis;
}

namespace {

/// The product of all extents but kBatch, and how often kBatch is among them.
struct Product {
  std::int64_t extents = 1;
  int batches = 0;

  explicit Product(const Extents& dims) {
    for (const std::int64_t extent : dims) {
      if (extent == kBatch) {
        ++batches;
      } else if (extent != -1 && __builtin_mul_overflow(extents, extent, &extents)) {
        refuse_overflow();
      }
    }
  }
};

}  // namespace

Extents reshaped(const Node& node, const Extents& from, Extents to) {
  const bool zero_is_zero = integer(node, "allowzero", 0) != 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zero_is_zero && i < from.size()) to[i] = from[i];
    if (to[i] < -1) refuse("its shape {} is not valid", shown(to));
  }
  const Product all(from);
  const Product known(to);
  const auto open = std::ranges::find(to, -1);
  if (open != to.end()) {
    if (std::ranges::count(to, -1) > 1) refuse("its shape {} leaves two extents open", shown(to));
    if (known.extents == 0 || known.batches > all.batches) refuse("its shape {} cannot be completed", shown(to));
    if (known.batches == all.batches) {
      *open = all.extents / known.extents;
    } else if (known.extents == all.extents && all.batches == 1) {
      *open = kBatch;
    } else {
      refuse("its shape {} joins images with other extents of {}", shown(to), shown(from));
    }
  } else if (known.batches < all.batches && !to.empty() && to[0] == 1) {
    to[0] = kBatch;  // the model can be used for one image at a time only, and does the same for each
  }
  const Product completed(to);
  if (completed.extents != all.extents || completed.batches != all.batches) {
    refuse("its shape {} does not fit values of the shape {}", shown(to), shown(from));
  }
  return to;
}

Extents squeezed(const Node& node, Extents dims, Extents axes) {
  if (axes.size() > 8) refuse("it has {} axes; expected at most 8", axes.size());
  const bool adds = node.type == "Unsqueeze";
  const std::size_t rank = dims.size() + (adds ? axes.size() : 0);
  for (std::int64_t& axis : axes) axis = axis_of(axis, rank);
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) refuse("its axes {} come twice", fmt::join(axes, ","));
  if (adds) {
    for (const std::int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
    return dims;
  }
  if (axes.empty()) {
    std::erase(dims, 1);
    return dims;
  }
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::int64_t extent = dims[axes[i]];
    if (extent != 1) refuse("axis {} of {} has an extent other than 1", axes[i], shown(dims));
    dims.erase(dims.begin() + axes[i]);
  }
  return dims;
}

Extents flattened(const Node& node, const Extents& dims) {
  const std::int64_t rank = static_cast<std::int64_t>(dims.size());
  std::int64_t axis = integer(node, "axis", 1);
  if (axis < -rank || axis > rank) refuse("axis {} is outside of the {} extents", axis, rank);
  if (axis < 0) axis += rank;
  const Product before({dims.begin(), dims.begin() + axis});
  const Product behind({dims.begin() + axis, dims.end()});
  if (before.batches > 0 && before.extents != 1) {
    refuse("it flattens {} at axis {}, which makes several rows of each image; expected one row, as by axis 1",
           shown(dims), axis);
  }
  if (behind.batches > 0) refuse("it flattens {} at axis {}, which makes one row of all images", shown(dims), axis);
  return {before.batches > 0 ? kBatch : before.extents, behind.extents};
}

// ---- numbers -------------------------------------------------------------------------------------------------------

Constant Folder::cast(const Node& node, const Inputs& inputs) {
  enum Type { kFloat = 1, kInt32 = 6, kInt64 = 7, kBool = 9, kDouble = 11 };
  const Constant& from = input_of(inputs, 0);
  const std::int64_t to = integer(node, "to", 0);
  Constant made{.dims = from.dims, .floats = {}, .integers = {}, .whole = to != kFloat && to != kDouble};
  if (made.whole && to != kInt32 && to != kInt64 && to != kBool) {
    refuse("it converts a constant to the type {}; expected float, double, int32, int64 or bool", to);
  }
  spend(made.dims, made.whole);
  for (const float value : from.floats) {
    if (!made.whole) made.floats.push_back(value);
    if (made.whole) made.integers.push_back(to == kBool ? static_cast<std::int64_t>(value != 0.0F) : truncated(value));
  }
  for (const std::int64_t value : from.integers) {
    if (value == kBatch && !made.whole) refuse_batch();
    if (!made.whole) made.floats.push_back(static_cast<float>(value));
    if (made.whole) made.integers.push_back(to == kBool ? static_cast<std::int64_t>(value != 0) : value);
  }
  for (const std::int64_t value : made.integers) {
    if (to == kInt32 && value != kBatch && value != static_cast<std::int32_t>(value)) refuse_overflow();
  }
  return made;
}

Constant Folder::range(const Node&, const Inputs& inputs) {
  const bool whole = input_of(inputs, 0).whole;
  std::array<double, 3> given{};
  for (std::size_t i = 0; i < 3; ++i) {
    const Constant& input = input_of(inputs, i);
    if (input.size() != 1 || input.whole != whole) refuse("its start, limit and step must be numbers of one type");
    if (whole && input.integers[0] == kBatch) refuse_batch();
    given[i] = whole ? static_cast<double>(input.integers[0]) : static_cast<double>(input.floats[0]);
  }
  const double count = std::ceil((given[1] - given[0]) / given[2]);
  if (!(count < 1e6) || std::abs(given[0]) > 1e15 || std::abs(given[2]) > 1e9) {
    refuse("it counts from {} to {} by {}; expected at most a million numbers", given[0], given[1], given[2]);
  }
  const auto numbers = static_cast<std::int64_t>(std::max(count, 0.0));
  Constant made{.dims = {numbers}, .floats = {}, .integers = {}, .whole = whole};
  spend(made.dims, whole);
  for (std::int64_t i = 0; i < numbers; ++i) {
    const double value = given[0] + static_cast<double>(i) * given[2];
    if (whole) made.integers.push_back(static_cast<std::int64_t>(value));
    if (!whole) made.floats.push_back(static_cast<float>(value));
  }
  return made;
}

Constant Folder::of_one(const Node& node, const Inputs& inputs) {
  static const std::map<std::string, float (*)(float)> of_float{
      {"Abs", [](float x) { return std::abs(x); }},     {"Ceil", [](float x) { return std::ceil(x); }},
      {"Floor", [](float x) { return std::floor(x); }}, {"Neg", [](float x) { return -x; }},
      {"Reciprocal", [](float x) { return 1.0F / x; }}, {"Sqrt", [](float x) { return std::sqrt(x); }}};
  Constant made = input_of(inputs, 0);
  spend(made.dims, made.whole);
  if (made.whole) {
    for (std::int64_t& value : made.integers) {
      if (value == kBatch) refuse_batch();
      if (value == std::numeric_limits<std::int64_t>::min()) refuse_overflow();
      if (node.type == "Abs") {
        value = std::abs(value);
      } else if (node.type == "Neg") {
        value = -value;
      } else if (node.type == "Not") {
        value = value == 0 ? 1 : 0;
      } else {
        refuse("its input holds integers; expected floating-point numbers");
      }
    }
    return made;
  }
  const auto found = of_float.find(node.type);
  if (found == of_float.end()) refuse("its input holds floating-point numbers; expected truth values");
  std::ranges::transform(made.floats, made.floats.begin(), found->second);
  return made;
}

Constant as_floats(const Constant& from) {
  Constant made{.dims = from.dims, .floats = from.floats, .integers = {}};
  for (const std::int64_t value : from.integers) {
    if (value == kBatch) refuse_batch();
    made.floats.push_back(static_cast<float>(value));
  }
  return made;
}

Constant Folder::of_two(const Node& node, const Inputs& inputs) {
  if (inputs.size() != 2) refuse("it has {} constant inputs; expected 2", inputs.size());
  const Constant& a = input_of(inputs, 0);
  Constant b = input_of(inputs, 1);
  if (node.type == "Pow" && !a.whole && b.whole) b = as_floats(b);
  if (a.whole != b.whole) refuse("one of its constants holds integers, the other one floating-point numbers");
  Constant made{.dims = broadcast(a.dims, b.dims), .floats = {}, .integers = {}, .whole = a.whole};
  spend(made.dims, a.whole || compares(node.type));
  const std::array strides{broadcast_strides(a.dims, made.dims), broadcast_strides(b.dims, made.dims)};
  const auto at = [](std::int64_t place) { return static_cast<std::size_t>(place); };
  const bool sign_of_dividend = integer(node, "fmod", 0) != 0;
  if (a.whole) {
    walk<2>(made.dims, strides, {0, 0}, [&](const auto& places) {
      made.integers.push_back(
          of_integers(node.type, a.integers[at(places[0])], b.integers[at(places[1])], sign_of_dividend));
    });
    return made;
  }
  const OfFloats compute = of_floats(node.type, sign_of_dividend);
  made.whole = compares(node.type);
  walk<2>(made.dims, strides, {0, 0}, [&](const auto& places) {
    const float value = compute(a.floats[at(places[0])], b.floats[at(places[1])]);
    if (made.whole) made.integers.push_back(static_cast<std::int64_t>(value));
    if (!made.whole) made.floats.push_back(value);
  });
  return made;
}

Constant Folder::chosen(const Node&, const Inputs& inputs) {
  const Constant& condition = input_of(inputs, 0);
  const Constant& a = input_of(inputs, 1);
  const Constant& b = input_of(inputs, 2);
  if (!condition.whole || a.whole != b.whole) refuse("its condition must be truth values, and its choices of one type");
  Constant made{
      .dims = broadcast(broadcast(condition.dims, a.dims), b.dims), .floats = {}, .integers = {}, .whole = a.whole};
  spend(made.dims, made.whole);
  const std::array strides{broadcast_strides(condition.dims, made.dims), broadcast_strides(a.dims, made.dims),
                           broadcast_strides(b.dims, made.dims)};
  walk<3>(made.dims, strides, {0, 0, 0}, [&](const auto& places) {
    const bool first = condition.integers[places[0]] != 0;
    const auto place = static_cast<std::size_t>(places[first ? 1 : 2]);
    if (made.whole) made.integers.push_back((first ? a : b).integers[place]);
    if (!made.whole) made.floats.push_back((first ? a : b).floats[place]);
  });
  return made;
}

}  // namespace convoy::onnx_file
