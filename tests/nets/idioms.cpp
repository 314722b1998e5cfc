#include "tests/nets/idioms.hpp"

#include <limits>

namespace convoy {

namespace {

/// A constant of the shape that is the value of `shape`, filled with an integer.
void filled(SmallModel& m, const std::string& shape, std::int64_t with) {
  auto& value = *m.node("ConstantOfShape", {shape}).add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::INT64);
  value.mutable_t()->add_dims(1);
  value.mutable_t()->add_int64_data(with);
}

}  // namespace

void dense(SmallModel& m, std::int64_t inputs) {
  m.constant("v", {inputs, 5});
  m.node("Gemm", {m.last, "v"});
}

void pass_on(SmallModel& m, std::size_t values) {
  const auto count = static_cast<std::int64_t>(values);
  m.constant("same", {count, count});
  for (std::size_t i = 0; i < values * values; ++i) {
    m.tensor("same").set_float_data(static_cast<int>(i), i % (values + 1) == 0 ? 1.0F : 0.0F);
  }
  m.node("Flatten", {m.last});
  m.node("MatMul", {m.last, "same"});
}

void flat(SmallModel& m) {
  m.node("Flatten", {m.last});
  dense(m, 144);
}

std::string extent(SmallModel& m, const std::string& of, std::int64_t index) {
  const std::string name = "index" + std::to_string(m.model.graph().node_size());
  m.integer(name, index);
  m.node("Shape", {of});
  m.node("Gather", {m.last, name});
  m.integers(name + "_axes", {0});
  return m.node("Unsqueeze", {m.last, name + "_axes"}).output(0);
}

void view(SmallModel& m) {
  const std::string maps = m.last;
  const std::string batch = extent(m, maps, 0);
  m.integers("open", {-1});
  SmallModel::set(m.node("Concat", {batch, "open"}), "axis", {0});
  m.node("Reshape", {maps, m.last});
  dense(m, 144);
}

void computed_view(SmallModel& m) {
  const std::string maps = m.last;
  const std::string batch = extent(m, maps, 0);
  const std::string channels = extent(m, maps, 1);
  const std::string rows = extent(m, maps, -2);
  const std::string columns = extent(m, maps, 3);
  m.integers("four", {4});
  m.integers("nothing", {0});
  m.node("Mul", {channels, rows});
  m.node("Mul", {m.last, columns});
  m.node("Div", {m.last, "four"});
  m.node("Mul", {"four", m.last});
  m.node("Add", {m.last, "nothing"});
  const std::string all = m.node("Sub", {m.last, "nothing"}).output(0);
  SmallModel::set(m.node("Cast", {all}), "to", {6});
  SmallModel::set(m.node("Cast", {m.last}), "to", {7});
  SmallModel::set(m.node("Concat", {batch, m.last}), "axis", {0});
  m.node("Reshape", {maps, m.last});
  dense(m, 144);
}

void expanded(SmallModel& m) {
  const std::string maps = m.last;
  m.integers("wanted", {-1, 4, -1, 6});
  m.integers("rank", {4});
  filled(m, "rank", 1);
  const std::string all = m.last;
  m.integers("minus", {-1});
  m.node("Equal", {"wanted", "minus"});
  m.node("Where", {m.last, all, "wanted"});
  m.node("Expand", {maps, m.last});
  flat(m);
}

void padded_by_constants(SmallModel& m) {
  const std::string maps = m.last;
  m.integers("given", {1, 2, 1, 0});
  m.integers("more", {4});
  filled(m, "more", 0);
  SmallModel::set(m.node("Concat", {"given", m.last}), "axis", {0});
  m.integers("pairs", {-1, 2});
  m.node("Reshape", {m.last, "pairs"});
  m.integers("zero", {0});
  m.integers("minus", {-1});
  m.integers("start", {std::numeric_limits<std::int64_t>::min() + 1});
  m.node("Slice", {m.last, "minus", "start", "zero", "minus"});
  SmallModel::set(m.node("Transpose", {m.last}), "perm", {1, 0});
  m.node("Reshape", {m.last, "minus"});
  SmallModel::set(m.node("Cast", {m.last}), "to", {7});
  SmallModel::set_text(m.node("Pad", {maps, m.last, ""}), "mode", "constant");
  m.constant("u", {2, 4, 4, 4});
  m.node("Conv", {m.last, "u"});
  m.node("Flatten", {m.last});
  dense(m, 48);
}

onnx::FunctionProto& function(SmallModel& m, const std::string& name, const std::vector<std::string>& inputs,
                              const std::string& output) {
  auto& made = *m.model.add_functions();
  made.set_domain("test");
  made.set_name(name);
  for (const std::string& input : inputs) made.add_input(input);
  made.add_output(output);
  made.add_opset_import()->set_version(m.model.opset_import(0).version());
  return made;
}

onnx::NodeProto& inside(onnx::FunctionProto& function, const std::string& type, const std::vector<std::string>& inputs,
                        const std::string& output) {
  auto& node = *function.add_node();
  node.set_op_type(type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

void functions(SmallModel& m) {
  auto& inner = function(m, "Inner", {"x"}, "y");
  inner.add_attribute("slope");
  auto& leaky = inside(inner, "LeakyRelu", {"x"}, "y");
  auto& reference = *leaky.add_attribute();
  reference.set_name("alpha");
  reference.set_type(onnx::AttributeProto::FLOAT);
  reference.set_ref_attr_name("slope");
  auto& outer = function(m, "Outer", {"x", "unused"}, "z");
  auto& call = inside(outer, "Inner", {"x"}, "y");
  call.set_domain("test");
  SmallModel::set_number(call, "slope", 0.25F);
  inside(outer, "Identity", {"y"}, "z");
  m.node("Outer", {m.last}).set_domain("test");
  m.node("Outer", {m.last}).set_domain("test");
  flat(m);
}

}  // namespace convoy
