// Folds the operators that make one constant of several: reductions along axes, sums and means of inputs.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "nets/onnx/fold.hpp"

namespace convoy::onnx_file {
namespace {

/// How a reduction goes on from a result to one more value. `of_integers` names the operator on two integers.
struct Reduction {
  std::string of_integers;
  double first;
  double (*next)(double, double);
};

const Reduction& reduction_of(const std::string& type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto sum = [](double a, double b) { return a + b; };
  static const std::map<std::string, Reduction> all{
      {"ReduceMax", {"Max", -kInfinity, [](double a, double b) { return std::isnan(a) || a > b ? a : b; }}},
      {"ReduceMin", {"Min", kInfinity, [](double a, double b) { return std::isnan(a) || a < b ? a : b; }}},
      {"ReduceProd", {"Mul", 1.0, [](double a, double b) { return a * b; }}},
      {"ReduceSum", {"Add", 0.0, sum}},
      {"ReduceMean", {"", 0.0, sum}}};
  return all.at(type);
}

/// The output's extents with 1 along each reduced axis, and whether an axis is reduced.
struct Reduced {
  Extents dims;
  std::vector<bool> gone;
};

Reduced reduced_dims(const Constant& from, const Extents& axes) {
  Reduced to{from.dims, std::vector<bool>(from.dims.size(), axes.empty())};
  for (const std::int64_t axis : axes) to.gone[axis_of(axis, from.dims.size())] = true;
  for (std::size_t i = 0; i < to.dims.size(); ++i) {
    if (to.gone[i]) to.dims[i] = 1;
  }
  return to;
}

}  // namespace

Constant Folder::of_several(const Node& node, const Inputs& inputs) {
  const bool mean = node.type == "Mean";
  Node pair = node;
  if (mean || node.type == "Sum") pair.type = "Add";
  Constant made = input_of(inputs, 0);
  spend(made.dims, made.whole);
  for (std::size_t i = 1; i < inputs.size(); ++i) made = of_two(pair, {&made, &input_of(inputs, i)});
  if (mean && made.whole) refuse("its inputs hold integers; expected floating-point numbers");
  if (mean) {
    for (float& value : made.floats) value /= static_cast<float>(inputs.size());
  }
  return made;
}

Constant Folder::reduced(const Node& node, const Inputs& inputs) {
  const Constant& from = input_of(inputs, 0);
  const bool given = inputs.size() > 1 && inputs[1] != nullptr;
  const Extents axes = given ? integers_of(inputs, 1) : integers(node, "axes", {});
  if (axes.empty() && integer(node, "noop_with_empty_axes", 0) != 0) return same(node, inputs);
  const Reduction& reduction = reduction_of(node.type);
  if (from.whole && reduction.of_integers.empty()) refuse("its input holds integers; expected floating-point numbers");
  if (from.whole && from.size() == 0) refuse("it reduces a constant without values");
  const Reduced to = reduced_dims(from, axes);
  spend(from.dims, from.whole);  // the time goes into what is read
  Constant made{.dims = to.dims, .floats = {}, .integers = {}, .whole = from.whole};
  std::size_t count = 1;
  for (const std::int64_t extent : to.dims) count *= static_cast<std::size_t>(extent);
  std::vector<double> results(from.whole ? 0 : count, reduction.first);
  std::vector<bool> begun(from.whole ? count : 0, false);
  made.integers.resize(begun.size());
  walk<2>(from.dims, {strides_of(from.dims), broadcast_strides(to.dims, from.dims)}, {0, 0}, [&](const auto& places) {
    const auto place = static_cast<std::size_t>(places[0]);
    const auto at = static_cast<std::size_t>(places[1]);
    if (!from.whole) {
      results[at] = reduction.next(results[at], from.floats[place]);
      return;
    }
    std::int64_t& result = made.integers[at];
    result = begun[at] ? of_integers(reduction.of_integers, result, from.integers[place], false) : from.integers[place];
    begun[at] = true;
  });
  const double values = count == 0 ? 1.0 : static_cast<double>(from.size()) / static_cast<double>(count);
  for (const double result : results) {
    made.floats.push_back(static_cast<float>(node.type == "ReduceMean" ? result / values : result));
  }
  if (integer(node, "keepdims", 1) == 0) {
    made.dims.clear();
    for (std::size_t i = 0; i < to.dims.size(); ++i) {
      if (!to.gone[i]) made.dims.push_back(to.dims[i]);
    }
  }
  return made;
}

}  // namespace convoy::onnx_file
