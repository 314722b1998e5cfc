// Builds the net of an ONNX model layer by layer. Only the sources of onnx.hpp include the header.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/named_tensor.hpp"
#include "nets/graph/net.hpp"

namespace convoy::onnx_file {

/// What a Pad has put around maps, before the layer that takes it as its own padding.
struct Padded {
  std::array<int, 4> sides{};  ///< top, left, bottom, right
  float filling = 0.0F;
  bool any() const { return sides != std::array<int, 4>{}; }
};

/// The output of a layer, in the layout that the model gives it.
struct Value {
  std::string layer;
  std::vector<int> dims;             ///< extents without the batch, as the model sees them
  FeatureShape maps{};               ///< the extents of the net's layer; unknown for an input that no layer has read
  bool channels_last = false;        ///< the model's order is (rows, columns, channels); the net's is channels first
  Padded padded{};                   ///< not in `dims`
  std::vector<int> transposed_from;  ///< for a list flattened from (rows, columns, channels): these extents
  bool bare = false;                 ///< the output of a layer with weights, into which a factor or term can be folded
  bool ended = false;                ///< the output of a softmax, or its logarithm
  bool logarithm = false;            ///< the latter
  bool positive = false;             ///< no element is below 0
  int shuffle = 0;                   ///< the groups of channels of a Transpose whose Reshape will shuffle them

  int size() const;
  /// Whether each map has one element, so that all orders of the extents are the same.
  bool is_point() const { return maps.channels > 0 && maps.height * maps.width == 1; }
  /// The extents of the layer's maps in the model's order.
  std::vector<int> maps_as_seen() const {
    return channels_last ? std::vector<int>{maps.height, maps.width, maps.channels}
                         : std::vector<int>{maps.channels, maps.height, maps.width};
  }
  /// Whether groups of channels with all their rows and columns are a list each: (groups, values of a group).
  bool groups_flattened() const {
    return dims.size() == 2 && !channels_last && dims[0] > 0 && maps.channels % dims[0] == 0 && size() == maps.size();
  }
  /// The value flattened to a list.
  Value flat() const;
  /// The index in the net's list of element `i` of the model's list.
  std::size_t place(std::size_t i) const;
};

/// Collects layers, and writes them as a net file and named tensors. The extents of values exclude the batch.
class Builder {
 public:
  explicit Builder(const std::string& name);

  /// Sets the extents of the net's input; the first operator that reads the input decides them.
  void settle_input(const std::vector<int>& dims);
  bool input_settled() const { return input_.channels > 0; }
  const FeatureShape& input() const { return input_; }

  // Each function adds a layer called after the node `name`, and returns the layer's output.
  /// `weights` are (filters, channels of a group, rows, columns), of the extents `extents`. An empty `bias` means no
  /// bias.
  Value conv(const std::string& name, const Value& from, const std::vector<int>& extents, int groups,
             const std::vector<int>& strides, const std::vector<int>& pads, const std::vector<int>& dilations,
             std::vector<float> weights, std::vector<float> bias);
  /// `weights` are in the order of the layer, (filters, channels of a group, rows, columns). An empty `bias` means no
  /// bias.
  Value transposed(const std::string& name, const Value& from, const TransposedConvolution& what,
                   std::vector<float> weights, std::vector<float> bias);
  /// Adds a pooling of this type of layer; the kind in `pool` is not used.
  Value window(const std::string& name, const std::string& type, const Value& from, const Pooling& pool);
  /// `lists` are the weights, biases, running means and running variances, each with one number for each channel.
  Value batch_norm(const std::string& name, const std::string& fields, const Value& from,
                   const std::vector<std::vector<float>>& lists);
  /// A norm of each sample, with a factor and a term for each channel. With empty lists the norm has none of them until
  /// change() adds some.
  Value norm(const std::string& name, const std::string& fields, const Value& from, std::vector<float> factors,
             std::vector<float> terms);
  /// `slopes` has one number for each channel.
  Value prelu(const std::string& name, const Value& from, std::vector<float> slopes);
  Value dense(const std::string& name, const Value& from, int units, std::vector<float> weights,
              std::vector<float> bias);
  /// A layer that leaves the extents unchanged.
  Value plain(const std::string& name, const std::string& fields, const Value& from);
  /// A layer whose output are maps of the shape `maps`.
  Value shaped(const std::string& name, const std::string& fields, const Value& from, const FeatureShape& maps);
  /// Channels first .. first + count - 1; the layer's value itself where these are all.
  Value slice(const std::string& name, const Value& from, FilterRange channels);
  /// A layer of several inputs whose output has the form of the first, but `channels` channels.
  Value joined(const std::string& name, const std::string& fields, const std::vector<Value>& from, int channels);
  /// Applies `how` to all weights and biases of the layer. `by` has one number for each output of the layer, or one for
  /// all.
  void change(const Value& of, const std::vector<float>& by,
              const std::function<void(float& weight, float& bias, float by)>& how);
  /// Adds a loss for each value, the main one for the first.
  void end(const std::vector<Value>& outputs);

  std::string yaml() const;
  std::vector<NamedTensor> tensors() const;

 private:
  struct Parameters {
    NamedTensor weights;
    std::vector<float> bias;
    bool has_bias = true;
    bool affine = true;  ///< false for a norm that has neither weights nor bias so far
    std::vector<NamedTensor> others;
  };

  std::string unique(const std::string& name);
  Value add(const std::string& name, const std::string& fields, const std::vector<Value>& from,
            const FeatureShape& maps);

  std::string name_;
  FeatureShape input_{};
  struct Line {
    std::string name;
    std::string from;
    std::string fields;
  };
  std::vector<Line> lines_;
  std::set<std::string> names_{"input"};
  std::map<std::string, Parameters> parameters_;  ///< by layer
};

}  // namespace convoy::onnx_file
