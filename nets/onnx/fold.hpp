// Computes the nodes of an ONNX model whose inputs are all constant, such as the arithmetic of shapes. Only the sources
// of onnx.hpp include the header.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "nets/onnx/graph.hpp"

namespace convoy::onnx_file {

using Extents = std::vector<std::int64_t>;

/// The extents after a Reshape to `to`, whose elements may be -1 or 0, as ONNX defines them. One of the extents `from`
/// may be kBatch. Throws Refused.
Extents reshaped(const Node& node, const Extents& from, Extents to);
/// The extents after a Squeeze or Unsqueeze of `axes`; a Squeeze without axes takes out all extents of 1.
Extents squeezed(const Node& node, Extents dims, Extents axes);
/// The extents after a Flatten.
Extents flattened(const Node& node, const Extents& dims);
/// The axis counted from 0; refuses one outside of `rank` extents.
std::int64_t axis_of(std::int64_t axis, std::size_t rank);
std::string shown(const Extents& dims);

/// An input of a node that is folded; null if the node leaves the input out.
using Inputs = std::vector<const Constant*>;

/// Folds nodes, within a limit of values over all nodes of a model.
class Folder {
 public:
  explicit Folder(std::int64_t opset) : opset_(opset) {}

  /// The output of the node. Throws Refused if the operator is not among those that are folded, if its inputs are
  /// wrong, or if the result depends on the number of images in other than its place in a shape.
  Constant fold(const Node& node, const Inputs& inputs);
  /// Whether the operator is among those that are folded.
  static bool folds(const std::string& type) { return find(type) != nullptr; }
  /// Counts `count` more values. Refuses a node that exceeds the limit.
  void spend(const Extents& dims, bool whole);

 private:
  using Fold = Constant (Folder::*)(const Node&, const Inputs&);
  static Fold find(const std::string& type);

  // ---- operators that move elements --------------------------------------------------------------------------------
  Constant made(const Node& node, const Inputs& inputs);
  Constant filled(const Node& node, const Inputs& inputs);
  Constant same(const Node& node, const Inputs& inputs);
  Constant shaped(const Node& node, const Inputs& inputs);
  Constant gathered(const Node& node, const Inputs& inputs);
  Constant joined(const Node& node, const Inputs& inputs);
  Constant transposed(const Node& node, const Inputs& inputs);
  Constant expanded(const Node& node, const Inputs& inputs);
  Constant sliced(const Node& node, const Inputs& inputs);
  Constant shape(const Node& node, const Inputs& inputs);
  // ---- operators that compute ---------------------------------------------------------------------------------------
  Constant cast(const Node& node, const Inputs& inputs);
  Constant range(const Node& node, const Inputs& inputs);
  Constant of_one(const Node& node, const Inputs& inputs);
  Constant of_two(const Node& node, const Inputs& inputs);
  Constant chosen(const Node& node, const Inputs& inputs);
  Constant of_several(const Node& node, const Inputs& inputs);
  Constant reduced(const Node& node, const Inputs& inputs);

  /// Elements of `from` in the order of `dims`, where a step along axis i moves by strides[i] from the element `first`.
  Constant walked(const Constant& from, Extents dims, const Extents& strides, std::int64_t first);

  std::int64_t opset_;
  std::size_t spent_ = 0;
};

// ---- for the sources of the folder ----------------------------------------------------------------------------------

/// An input that must be there; refuses the node otherwise.
const Constant& input_of(const Inputs& inputs, std::size_t index);
/// The integers of an input; refuses floats.
const Extents& integers_of(const Inputs& inputs, std::size_t index);
/// The result of the binary operator `type`; either integer may be kBatch. Throws Refused where the result has no 64
/// bits.
std::int64_t of_integers(const std::string& type, std::int64_t a, std::int64_t b, bool sign_of_dividend);
/// The constant with its integers as floats. Throws Refused where one is the number of images.
Constant as_floats(const Constant& from);
/// How far apart neighbours along each axis are in the list of values.
Extents strides_of(const Extents& dims);
/// The strides of `dims` where they are broadcast to `to`: 0 along axes of extent 1.
Extents broadcast_strides(const Extents& dims, const Extents& to);
/// The extents to which both broadcast.
Extents broadcast(const Extents& a, const Extents& b);

/// The elements that a Slice takes of one axis: from `start` on up to `end`, by steps of `step`, as the node gives the
/// numbers.
struct SlicedAxis {
  std::size_t axis;
  std::int64_t start;
  std::int64_t end;
  std::int64_t step;  ///< not 0
};
/// The axes that a Slice of `rank` extents cuts, each once. Throws Refused.
std::vector<SlicedAxis> sliced_axes(const Node& node, const Inputs& inputs, std::size_t rank);

/// Calls `visit` with the places in all inputs of each element of an output of the extents `dims`, in its order.
template <std::size_t inputs, class Visit>
void walk(const Extents& dims, const std::array<Extents, inputs>& strides, std::array<std::int64_t, inputs> places,
          Visit visit) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  Extents at(dims.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    visit(places);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      const bool ends = ++at[axis] == dims[axis];
      for (std::size_t k = 0; k < inputs; ++k) {
        places[k] += ends ? -(dims[axis] - 1) * strides[k][axis] : strides[k][axis];
      }
      if (!ends) break;
      at[axis] = 0;
    }
  }
}

}  // namespace convoy::onnx_file
