#include "tests/nets/small_model.hpp"

#include <stdexcept>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "model/checkpoint.hpp"
#include "tests/support/trunk_on_values.hpp"
#include "train/train.hpp"

namespace convoy {

std::vector<float> outputs_of(const ImportedNet& model, const NamedTensor& input) {
  const Net net = parse_net(model.yaml, "imported");
  const Cut parts = cut(net);
  const auto batch = static_cast<int>(input.dims[0]);
  Tensor values({batch, net.input.channels, net.input.height, net.input.width});
  EXPECT_EQ(values.size(), input.values.size());
  for (int n = 0; n < batch; ++n) {
    const std::span<float> image = values.sample(n);
    const std::size_t map = image.size() / static_cast<std::size_t>(net.input.channels);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const std::size_t from =
          model.channels_last ? i % map * static_cast<std::size_t>(net.input.channels) + i / map : i;
      image[i] = input.values[static_cast<std::size_t>(n) * image.size() + from];
    }
  }
  const auto device = make_device("cpu", {.threads = 2});
  TrunkOnValues trunk(parts.trunk, values.shape(), *device);
  trunk.values = values;
  NetLearner learner(trunk, parts, batch);
  learner.load({std::make_shared<const ModelState>(model_from(parts, model.tensors, "imported"))});
  const Tensor& outputs = learner.outputs({Pixels(values.shape()), {}});
  return {outputs.span().begin(), outputs.span().end()};
}

NamedTensor drawn_images(const Net& net, int batch) {
  const Shape shape{batch, net.input.channels, net.input.height, net.input.width};
  NamedTensor images{"images", {batch, shape.c, shape.h, shape.w}, std::vector<float>(shape.size())};
  Random random(4, 5);
  for (float& value : images.values) value = random.uniform(-1.0F, 1.0F);
  return images;
}

SmallModel::SmallModel(int opset) {
  model.set_ir_version(7);
  model.add_opset_import()->set_version(opset);
  auto& graph = *model.mutable_graph();
  auto& input = *graph.add_input();
  input.set_name("images");
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const int extent : {1, 3, 8, 8}) type.mutable_shape()->add_dim()->set_dim_value(extent);
  constant("w", {4, 3, 3, 3});
  last = node("Conv", {"images", "w"}).output(0);
  graph.add_output();
}

onnx::NodeProto& SmallModel::node(const std::string& type, const std::vector<std::string>& inputs) {
  auto& made = *model.mutable_graph()->add_node();
  made.set_op_type(type);
  made.set_name("node" + std::to_string(model.graph().node_size()));
  for (const std::string& input : inputs) made.add_input(input);
  made.add_output(made.name() + "_out");
  last = made.output(0);
  return made;
}

void SmallModel::constant(const std::string& name, const std::vector<std::int64_t>& dims) {
  auto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  int count = 1;
  for (const std::int64_t extent : dims) {
    tensor.add_dims(extent);
    count *= static_cast<int>(extent);
  }
  std::uint32_t stream = 0;
  for (const char letter : name) stream = 31 * stream + static_cast<std::uint8_t>(letter);
  Random random(7, stream);
  for (int i = 0; i < count; ++i) tensor.add_float_data(random.uniform(-1.0F, 1.0F));
}

void SmallModel::number(const std::string& name, float value) {
  constant(name, {});
  tensor(name).set_float_data(0, value);
}

void SmallModel::integers(const std::string& name, const std::vector<std::int64_t>& values) {
  auto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
}

void SmallModel::integer(const std::string& name, std::int64_t value) {
  integers(name, {value});
  tensor(name).clear_dims();
}

void SmallModel::free_batch() {
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(0)->set_dim_param("batch");
}

onnx::TensorProto& SmallModel::tensor(const std::string& name) {
  for (auto& each : *model.mutable_graph()->mutable_initializer()) {
    if (each.name() == name) return each;
  }
  throw std::out_of_range("no constant " + name);
}

std::vector<float> SmallModel::values(const std::string& name) {
  const auto& data = tensor(name).float_data();
  return {data.begin(), data.end()};
}

void SmallModel::set(onnx::NodeProto& node, const std::string& name, const std::vector<int>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(values.size() == 1 ? onnx::AttributeProto::INT : onnx::AttributeProto::INTS);
  if (values.size() == 1) {
    attribute.set_i(values[0]);
  } else {
    for (const int value : values) attribute.add_ints(value);
  }
}

void SmallModel::set_number(onnx::NodeProto& node, const std::string& name, float value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

void SmallModel::set_text(onnx::NodeProto& node, const std::string& name, const std::string& value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

std::string SmallModel::bytes() {
  model.mutable_graph()->mutable_output(0)->set_name(last);
  return model.SerializeAsString();
}

}  // namespace convoy
