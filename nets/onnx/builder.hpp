// The net that an ONNX model becomes, layer by layer. For the sources of onnx.hpp alone.
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

/// What a layer gives, as the model has it.
struct Value {
  std::string layer;
  std::vector<int> dims;             ///< without the batch: channels, rows, columns, or a list
  bool channels_last = false;        ///< rows, columns, channels in the model; in the net channels come first
  std::array<int, 4> padded{};       ///< zeros around the maps that the model has here: top, left, bottom, right
  std::vector<int> transposed_from;  ///< of a list that was (rows, columns, channels) in the model: these
  bool bare = false;                 ///< right behind weights, which may still change
  bool ended = false;                ///< behind a softmax

  int size() const;
  /// As a list.
  Value flat() const;
  /// Of element i of the list in the model, its place in the net's.
  std::size_t place(std::size_t i) const;
};

class Builder {
 public:
  explicit Builder(const std::string& name);

  /// What the net's input is, by the first operator that reads it.
  void settle_input(const std::vector<int>& dims);
  bool input_settled() const { return input_.channels > 0; }

  /// Each adds a layer. `weights`: (filters, channels of a group, rows, columns) of extents `extents`; no bias: none.
  Value conv(const std::string& name, const Value& from, const std::vector<int>& extents, int groups,
             const std::vector<int>& strides, const std::vector<int>& pads, std::vector<float> weights,
             std::vector<float> bias);
  Value window(const std::string& name, const std::string& type, const Value& from, const std::vector<int>& kernel,
               const std::vector<int>& strides, const std::vector<int>& pads);
  /// `lists`: weights, biases, running means and variances.
  Value batch_norm(const std::string& name, const std::string& fields, const Value& from,
                   const std::vector<std::vector<float>>& lists);
  Value dense(const std::string& name, const Value& from, int units, std::vector<float> weights,
              std::vector<float> bias);
  Value plain(const std::string& name, const std::string& fields, const Value& from, std::vector<int> dims);
  Value joined(const std::string& name, const std::string& fields, const std::vector<Value>& from,
               std::vector<int> dims);
  /// Changes all weights and the bias of each output of the layer, by one number for each of them or one for all.
  void change(const Value& of, const std::vector<float>& by,
              const std::function<void(float& weight, float& bias, float by)>& how);
  void end(const Value& last);

  std::string yaml() const;
  std::vector<NamedTensor> tensors() const;

 private:
  struct Parameters {
    NamedTensor weights;
    std::vector<float> bias;
    bool has_bias = true;
    std::vector<NamedTensor> others;
  };

  std::string unique(const std::string& name);
  Value add(const std::string& name, const std::string& fields, const std::vector<Value>& from, std::vector<int> dims);

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
