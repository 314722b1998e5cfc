// Follows the nodes of an ONNX model and builds a net of them. Only the sources of onnx.hpp include the header.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "nets/onnx/builder.hpp"
#include "nets/onnx/fold.hpp"
#include "nets/onnx/graph.hpp"
#include "nets/onnx/onnx.hpp"

namespace convoy::onnx_file {

/// The sentence that refuses a node whose operator no layer of Convoy replaces.
std::string why_refused(const Node& node);
/// The layer of a net file that does what an activation does to each element. Throws Refused where there is none.
struct ActivationLayer {
  std::string fields;     ///< type and fields, as in a net file
  bool positive = false;  ///< its outputs are never below 0
};
ActivationLayer activation_layer(const Node& node, const Inputs& constants);
bool is_activation(const std::string& type);
/// Replaces nodes that together compute an activation, such as x times Sigmoid(x), or a norm by one node.
void join_activations(Graph& graph);
/// Tells all refused nodes, by operator and reason.
std::string list_of_refused(const std::vector<std::pair<Node, std::string>>& refused, std::size_t nodes);

/// Imports one model. Each operator has a member function, which adds a layer, folds a constant into weights, or
/// refuses the node. A refused node's output is unknown, and so is what other nodes make of it; nodes that are
/// independent of it are still looked at, so that one message lists all refused nodes.
class Importer {
 public:
  Importer(Graph graph, std::string file, const std::string& name);

  ImportedNet run();

 private:
  /// The value of one of the model's outputs. Throws Error where it is no list of numbers in the order of the model.
  Value end_of(const std::string& output) const;
  /// The sentence that lists the model's outputs and says how to take one.
  std::string choice_of_outputs() const;

  // ---- the parts of a node -----------------------------------------------------------------------------------------

  static bool has(const Node& node, std::size_t input);
  const Constant* constant_if(const Node& node, std::size_t input) const;
  /// The constant at an input. Refuses the node if the input is not constant; `what` names the input in the error.
  const Constant& constant(const Node& node, std::size_t input, const char* what) const;
  const std::vector<float>& floats(const Node& node, std::size_t input, const char* what) const;
  /// The constants among the inputs; null for others.
  Inputs constants_of(const Node& node) const;
  /// What an input holds, for nodes that pass it on; constants can be folded into it only if no other node reads it.
  Value passed(const Node& node, std::size_t input = 0) const;
  /// The same with its maps; the first node that reads the images as a layer decides their extents.
  Value settled(Value found);
  /// What an input holds, for nodes that become layers. Refuses an input that a Pad has made larger.
  Value value(const Node& node, std::size_t input);
  /// The input as maps (channels, rows, columns). Refuses an input of other extents.
  Value maps(const Node& node, std::size_t input = 0);
  static void expect_maps(const Value& found);
  /// The same for layers with a padding of their own.
  Value padded_maps(const Node& node);
  static std::vector<int> narrow(const std::vector<std::int64_t>& values);
  static std::vector<int> ints(const Node& node, const std::string& attribute, const std::vector<int>& otherwise);
  /// The extents as the model sees them, the number of images first.
  Extents extents_of(const Value& value) const;
  void give(const Node& node, Value value, std::size_t output = 0);
  void give_bare(const Node& node, Value value);

  // ---- nodes ------------------------------------------------------------------------------------------------------

  /// Imports a node, or notes why it is refused.
  void take(const Node& node);
  using Import = void (Importer::*)(const Node&);
  static const std::map<std::string, Import>& operators();
  /// Whether the operator can be neither imported nor folded, whatever its inputs are.
  static bool nothing_takes(const Node& node);
  void note_refused(const Node& node, const std::string& reason);
  void import(const Node& node);
  bool fold(const Node& node);

  void identity(const Node& node);
  void shape(const Node& node);
  void cast(const Node& node);
  void expand(const Node& node);
  void activation(const Node& node);
  void batch_norm(const Node& node);
  void response_norm(const Node& node);
  /// One number for each channel of a constant that is broadcast to the extents of `from`. Refuses numbers that differ
  /// within a channel.
  std::vector<float> for_channels(const Node& node, std::size_t input, const char* what, const Value& from);
  void prelu(const Node& node);
  /// The layer of a net file that normalises over some axes.
  std::string norm_fields(const Node& node, const Value& from, const std::set<std::int64_t>& axes);
  void layer_norm(const Node& node);
  void group_norm(const Node& node);
  void instance_norm(const Node& node);
  /// Adds a group norm. Its factors and terms are one for each group, or else one for each channel.
  void norm_of_groups(const Node& node, const Value& from, int groups, bool of_groups);
  void dropout(const Node& node);
  void softmax(const Node& node);

  // ---- windows ----------------------------------------------------------------------------------------------------

  /// The padding of a convolution or pooling: top, left, bottom, right. Kernel and strides are (rows, columns).
  std::vector<int> sides(const Node& node, const Value& from, const std::vector<int>& kernel,
                         const std::vector<int>& strides) const;
  static std::vector<int> two(const Node& node, const std::string& attribute, const std::vector<int>& otherwise);
  /// Returns the rows and columns under a dilated kernel.
  static std::vector<int> reach_of(const std::vector<int>& kernel, const std::vector<int>& dilations);
  static void expect_fit(const Value& from, const std::vector<int>& kernel, const std::vector<int>& strides,
                         const std::vector<int>& pads);
  void conv(const Node& node);
  void transposed_conv(const Node& node);
  /// What a transposed convolution cuts off: top, left, bottom, right.
  static std::vector<int> cut_off(const Node& node, const Value& from, const TransposedConvolution& what);
  void pool(const Node& node);
  /// The factors of images, channels, rows and columns.
  std::vector<double> scales_of(const Node& node, const Value& from);
  /// Resize and Upsample.
  void resize(const Node& node);
  void global_pool(const Node& node);
  /// ReduceMean and ReduceMax over rows, columns or both.
  void reduce(const Node& node);
  /// Pools whole rows, whole columns or both.
  Value pool_all(const Node& node, const Value& from, bool rows, bool columns);

  // ---- several inputs ---------------------------------------------------------------------------------------------

  void concat(const Node& node);
  void add(const Node& node);
  void subtract(const Node& node);
  void multiply(const Node& node);
  /// Multiplies two values that depend on the images.
  void multiply_maps(const Node& node);
  void divide(const Node& node);
  /// Folds a constant, one number for each channel or one for all, into the weights of the layer before. The constant
  /// `neutral` changes nothing.
  void change(const Node& node, std::size_t input, float neutral,
              const std::function<void(float& weight, float& bias, float by)>& how);

  // ---- dense layers -----------------------------------------------------------------------------------------------

  void gemm(const Node& node);
  void matmul(const Node& node);
  /// A product over the channels of each position, which is a convolution of 1x1.
  void pointwise(const Node& node, const Value& from, const Constant& weights);
  void dense(const Node& node, const Constant& weights, bool by_units, float factor, std::vector<float> bias);

  // ---- shapes -----------------------------------------------------------------------------------------------------

  /// Reshape, Flatten, Squeeze and Unsqueeze. A value may only be flattened, or gain and lose extents of 1.
  void reshape(const Node& node);
  void transpose(const Node& node);
  /// Adds a layer for padding of channels; padding of rows and columns is left to the layers that follow.
  void pad(const Node& node);
  /// Takes every n-th row and column, as a max pooling with a kernel of 1, and a run of the channels.
  void slice(const Node& node);
  /// Takes runs of the channels.
  void split(const Node& node);
  /// Reshapes between channels and groups of channels. After a Transpose of the two, this shuffles channels. A norm of
  /// groups may stand between Reshapes to lists of groups and back. Returns whether it is such a Reshape.
  bool reshape_groups(const Node& node, const std::vector<int>& to);

  Graph graph_;
  std::string file_;
  Builder builder_;
  Folder folder_;
  ImportedNet imported_;
  std::map<std::string, int> readers_;
  std::map<std::string, Value> values_;
  bool batch_statistics_ = false;       ///< a batch norm normalises by the batch, as in training
  std::set<std::string> unknown_;       ///< outputs of refused nodes, and of nodes that read them
  std::set<std::string> not_computed_;  ///< outputs beyond the first of nodes that are imported
  std::vector<std::pair<Node, std::string>> refused_;
};

}  // namespace convoy::onnx_file
