// Idioms of models, in the forms in which exporters write them.
#pragma once

#include <string>
#include <vector>

#include "tests/nets/small_model.hpp"

namespace convoy {

/// Each function adds nodes behind the last node of the model.

/// A dense layer of 5 units on `inputs` values.
void dense(SmallModel& m, std::int64_t inputs);
/// Flatten and a dense layer that passes all `values` values on, because a net's outputs are not maps.
void pass_on(SmallModel& m, std::size_t values);
/// Flatten and a dense layer, for maps of 4x6x6.
void flat(SmallModel& m);
/// The extent `index` of the shape of `of`, as a list of one element; returns its name.
std::string extent(SmallModel& m, const std::string& of, std::int64_t index);
/// view(x.size(0), -1), as PyTorch's old exporter writes it, and a dense layer.
void view(SmallModel& m);
/// view(x.size(0), c * h * w / 4 * 4 + 0 - 0), with arithmetic of every kind, and a dense layer.
void computed_view(SmallModel& m);
/// expand() of PyTorch: -1 in a shape is replaced by 1 before an Expand. It changes nothing here. A dense layer
/// follows.
void expanded(SmallModel& m);
/// functional.pad(x, (1, 2, 1, 0)) as PyTorch's old exporter writes it, where a Slice reverses the pads, a
/// convolution, and a dense layer.
void padded_by_constants(SmallModel& m);
/// Adds a function of the domain "test" to the model, and returns it.
onnx::FunctionProto& function(SmallModel& m, const std::string& name, const std::vector<std::string>& inputs,
                              const std::string& output);
/// Adds a node to a function.
onnx::NodeProto& inside(onnx::FunctionProto& function, const std::string& type, const std::vector<std::string>& inputs,
                        const std::string& output);
/// Two calls of a function that calls another one with the slope 0.25 of a LeakyRelu, and a dense layer.
void functions(SmallModel& m);

}  // namespace convoy
