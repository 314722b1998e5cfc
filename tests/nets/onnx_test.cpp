// Tests the import and export of ONNX models: the models in the data folder against the outputs stored with them, and
// small models that the tests make.

#include "tests/nets/small_model.hpp"
// The checker needs the macros that small_model.hpp defines.
#include <gmock/gmock.h>
#include <onnx/checker.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "core/random.hpp"
#include "model/checkpoint.hpp"
#include "tests/support/files.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/source_folder.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

std::vector<float> softmax(std::vector<float> values, std::size_t classes) {
  for (std::size_t first = 0; first < values.size(); first += classes) {
    const auto row = std::span(values).subspan(first, classes);
    const float top = *std::ranges::max_element(row);
    double sum = 0.0;
    for (float& value : row) sum += value = std::exp(value - top);
    for (float& value : row) value /= static_cast<float>(sum);
  }
  return values;
}

void expect_outputs(const std::string& model_file, const std::string& input_file, const std::string& output_file) {
  const ImportedNet model = import_onnx(model_file, "imported");
  const NamedTensor input = read_onnx_tensor(input_file);
  const NamedTensor expected = read_onnx_tensor(output_file);
  std::vector<float> got = outputs_of(model, input);
  const std::size_t classes = got.size() / static_cast<std::size_t>(input.dims[0]);
  if (model.softmax) got = softmax(got, classes);
  ASSERT_EQ(got.size(), expected.values.size());
  double largest = 0.0;
  for (const float value : expected.values) largest = std::max(largest, static_cast<double>(std::abs(value)));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected.values[i], 2e-5 * largest) << i;
}

class OnnxModels : public testing::TestWithParam<std::string> {};

TEST_P(OnnxModels, GiveTheirOutputs) {
  const std::string folder = real_data("onnx/" + GetParam());
  if (folder.empty()) GTEST_SKIP() << "no folder onnx/" << GetParam() << " among the test data";
  int vectors = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path());
    expect_outputs(folder + "/model.onnx", entry.path() / "input_0.pb", entry.path() / "output_0.pb");
    ++vectors;
  }
  EXPECT_GT(vectors, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxModels,
                         testing::Values("cifar10-resnet20-bn", "cifar10-resnet20-folded", "zoo-mnist-8",
                                         "vnncomp21-cifar10_small", "vnncomp21-cifar_base_kw",
                                         "vnncomp21-mnist-net_256x2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// Tests the shapes of whole nets whose weights are constants.
class OnnxGraphs : public testing::TestWithParam<std::pair<const char*, std::size_t>> {};

TEST_P(OnnxGraphs, AreTakenIn) {
  const auto& [name, parameters] = GetParam();
  const std::string folder = real_data("onnx/onnx-light");
  if (folder.empty()) GTEST_SKIP() << "no folder onnx/onnx-light among the test data";
  const std::string file = folder + "/light_" + name + ".onnx";
  const ImportedNet model = import_onnx(file, name);
  const Net net = parse_net(model.yaml, name);
  EXPECT_EQ(net.classes, 1000);
  EXPECT_EQ(parameter_count(net), parameters);
  EXPECT_TRUE(model.softmax || std::string(name) == "densenet121");
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxGraphs,
                         testing::Values(std::pair{"squeezenet", 1235496U}, std::pair{"vgg19", 143667240U},
                                         std::pair{"inception_v1", 6998552U}, std::pair{"bvlc_alexnet", 60965224U},
                                         std::pair{"resnet50", 25557032U}, std::pair{"zfnet512", 87250536U},
                                         std::pair{"inception_v2", 11194984U}, std::pair{"densenet121", 7978856U}),
                         [](const auto& info) { return std::string(info.param.first); });

// ---- export and import again ----------------------------------------------------------------------------------------

std::vector<NamedTensor> drawn_tensors(const Cut& parts) {
  Random random(4, 4);
  std::vector<NamedTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> dims, std::size_t count) {
    tensors.push_back({name, std::move(dims), std::vector<float>(count)});
    // Variances must not be negative, and the weights are scaled so that the maps keep their magnitude.
    const float deviation = std::sqrt(3.0F * static_cast<float>(tensors.back().dims[0]) / static_cast<float>(count));
    for (float& value : tensors.back().values) {
      value = name.ends_with("running_var") ? random.uniform(1.0F, 2.0F) : random.uniform(-deviation, deviation);
    }
  };
  for (std::size_t s = 0; s < parts.trunk.size(); ++s) {
    const Stage& stage = parts.trunk[s];
    const std::vector<ParameterSpec> specs = parameters_of(stage, stage.conv.filters);
    for (std::size_t p = 0; p < specs.size(); ++p) {
      const Shape& shape = specs[p].shape;
      const bool convolution = p == 0 && stage.kind == StageKind::convolution && !parts.has_list(s);
      std::vector<std::int64_t> dims{shape.n};
      if (convolution) dims = {shape.n, shape.c, shape.h, shape.w};
      if (p == 0 && parts.is_dense(s)) dims = {shape.n, static_cast<std::int64_t>(shape.sample_size())};
      add(specs[p].name, dims, shape.size());
    }
  }
  for (const DenseState<float>& state : Heads(parts, 1).states()) {
    const Shape& shape = state.weights.value.shape();
    add(state.name + ".weight", {shape.n, shape.c}, shape.size());
    add(state.name + ".bias", {shape.n}, static_cast<std::size_t>(shape.n));
  }
  return tensors;
}

constexpr const char* kEvenNormsNet = R"(name: even
input: {channels: 3, height: 6, width: 5}
layers:
  - {name: conv, type: conv, filters: 7, kernel: 3}
  - {name: four, type: response_norm, size: 4, alpha: 0.3, beta: 0.6, k: 1.5}
  - {name: two, type: response_norm, size: 2, alpha: 2}
  - {name: out, type: dense, units: 4}
  - {name: loss, type: softmax_cross_entropy}
)";

constexpr const char* kDilatedPoolsNet = R"(name: pools
input: {channels: 3, height: 9, width: 8}
layers:
  - {name: conv, type: conv, filters: 5, kernel: 2}
  - {name: wide, type: max_pool, kernel: [2, 3], stride: [1, 2], pad: [2, 1, 1, 2], dilation: [3, 2]}
  - {name: wide_tanh, type: tanh}
  - {name: high, type: max_pool, kernel: 2, stride: 1, dilation: [2, 1]}
  - {name: out, type: dense, units: 4}
  - {name: loss, type: softmax_cross_entropy}
)";

class OnnxExports : public testing::TestWithParam<std::pair<const char*, Overrides>> {};

TEST_P(OnnxExports, PassTheCheckerAndComeBackToTheBit) {
  const auto& [name, set] = GetParam();
  const std::map<std::string, const char*> own{{"graph", kGraphNet},    {"gates", kGatesNet},
                                               {"norms", kNormsNet},    {"sizes", kSizesNet},
                                               {"even", kEvenNormsNet}, {"pools", kDilatedPoolsNet}};
  const Net net = own.contains(name) ? parse_net(own.at(name), "own.yaml", set)
                                     : read_net(source_folder() + "/nets/" + name + ".yaml", set);
  const std::vector<NamedTensor> tensors = drawn_tensors(cut(net));
  const std::string bytes = to_onnx(net, tensors);
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  EXPECT_NO_THROW(onnx::checker::check_model(model));
  // onnxruntime refuses an LRN over an even number of channels.
  if (name == std::string("even")) {
    EXPECT_THAT(bytes, testing::Not(testing::HasSubstr("LRN")));
  }
  const ImportedNet again = parse_onnx(bytes, "exported.onnx", name);
  std::size_t compared = 0;
  for (const NamedTensor& tensor : again.tensors) {
    const auto before = std::ranges::find(tensors, tensor.name, &NamedTensor::name);
    ASSERT_NE(before, tensors.end()) << tensor.name;
    EXPECT_EQ(before->dims, tensor.dims) << tensor.name;
    EXPECT_EQ(before->values, tensor.values) << tensor.name;
    ++compared;
  }
  const auto of_side = [](const NamedTensor& tensor) { return tensor.name.starts_with("side"); };
  EXPECT_EQ(compared + static_cast<std::size_t>(std::ranges::count_if(tensors, of_side)), tensors.size());
  const NamedTensor images = drawn_images(net, 2);
  const std::vector<float> got = outputs_of(again, images);
  const std::vector<float> expected = outputs_of({.yaml = to_yaml(net), .tensors = tensors, .notices = {}}, images);
  EXPECT_EQ(got, expected);
}

INSTANTIATE_TEST_SUITE_P(Nets, OnnxExports,
                         testing::Values(std::pair{"graph", Overrides{}}, std::pair{"gates", Overrides{}},
                                         std::pair{"norms", Overrides{}}, std::pair{"sizes", Overrides{}},
                                         std::pair{"even", Overrides{}}, std::pair{"pools", Overrides{}},
                                         std::pair{"lenet", Overrides{}}, std::pair{"big-mlp", Overrides{}},
                                         std::pair{"resnet20", Overrides{}},
                                         std::pair{"resnet34-padded", Overrides{"input.height=48", "input.width=48"}},
                                         std::pair{"alexnet", Overrides{"input.height=67", "input.width=67"}},
                                         std::pair{"squeezenet", Overrides{"input.height=64", "input.width=64"}},
                                         std::pair{"googlenet", Overrides{"input.height=80", "input.width=80"}}),
                         [](const auto& info) {
                           std::string name = info.param.first;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// ---- refused models -------------------------------------------------------------------------------------------------

struct BadModel {
  std::string name;
  std::function<void(SmallModel&)> change;
  std::string says;
};

void PrintTo(const BadModel& bad, std::ostream* out) { *out << bad.name; }

class BadModels : public testing::TestWithParam<BadModel> {};

TEST_P(BadModels, AreRefusedWithNodeAndOperator) {
  SmallModel model;
  GetParam().change(model);
  EXPECT_THAT([&] { parse_onnx(model.bytes(), "bad.onnx", "bad"); },
              testing::ThrowsMessage<Error>(
                  testing::AllOf(testing::HasSubstr("bad.onnx"), testing::HasSubstr(GetParam().says))));
}

INSTANTIATE_TEST_SUITE_P(
    Models, BadModels,
    testing::Values(
        BadModel{"Operator", [](SmallModel& m) { m.node("Softsign", {m.last}); },
                 "node node2 (Softsign): no layer of Convoy does this"},
        BadModel{"Groups",
                 [](SmallModel& m) { SmallModel::set(*m.model.mutable_graph()->mutable_node(0), "group", {3}); },
                 "node node1 (Conv): 4 filters and 3 channels are not divisible into 3 groups"},
        BadModel{"Channels",
                 [](SmallModel& m) {
                   m.constant("v", {4, 5, 3, 3}), m.node("Conv", {m.last, "v"});
                 },
                 "node2 (Conv): its weights are for 5 channels, but its input has 4"},
        BadModel{"WeightsComputed",
                 [](SmallModel& m) {
                   m.node("Conv", {m.last, m.last});
                 },
                 "its weights must be a constant"},
        BadModel{"UnknownInput", [](SmallModel& m) { m.node("Relu", {"nobody"}); },
                 "its input nobody is not computed from the images"},
        BadModel{
            "SoftmaxInside",
            [](SmallModel& m) { m.node("Flatten", {m.last}), m.node("Softmax", {m.last}), m.node("Relu", {m.last}); },
            "follows a softmax"},
        BadModel{"Axis",
                 [](SmallModel& m) {
                   SmallModel::set(m.node("Concat", {m.last, m.last}), "axis", {2});
                 },
                 "axis is 2"},
        BadModel{"ConstantBehindActivation",
                 [](SmallModel& m) {
                   m.constant("v", {1}), m.node("Relu", {m.last}), m.node("Mul", {m.last, "v"});
                 },
                 "node3 (Mul): its constant can be folded only into"},
        BadModel{"MatrixForMaps",
                 [](SmallModel& m) {
                   m.constant("v", {144, 5}), m.node("MatMul", {m.last, "v"});
                 },
                 "its weights are for 144 inputs"},
        BadModel{"Opset", [](SmallModel& m) { m.model.mutable_opset_import(0)->set_version(6); }, "opset 6"},
        BadModel{"Domain", [](SmallModel& m) { m.node("Relu", {m.last}).set_domain("com.example"); }, "com.example"},
        BadModel{"TensorTooShort", [](SmallModel& m) { m.model.mutable_graph()->mutable_initializer(0)->add_dims(7); },
                 "tensor w holds 108"},
        BadModel{"TensorTwice",
                 [](SmallModel& m) {
                   auto& graph = *m.model.mutable_graph();
                   *graph.add_initializer() = graph.initializer(0);
                 },
                 "two tensors of the name w"},
        BadModel{"HugeExtents",
                 [](SmallModel& m) {
                   auto& tensor = *m.model.mutable_graph()->mutable_initializer(0);
                   for (int i = 0; i < 8; ++i) tensor.add_dims(std::int64_t{1} << 62);
                 },
                 "tensor w has an extent of"},
        BadModel{"NegativeExtent", [](SmallModel& m) { m.model.mutable_graph()->mutable_initializer(0)->add_dims(-1); },
                 "tensor w has an extent of -1"},
        BadModel{"ManyNodes",
                 [](SmallModel& m) {
                   for (int i = 0; i < 50000; ++i) m.node("Relu", {m.last});
                 },
                 "bad.onnx"},
        BadModel{"DeepGraphs",
                 [](SmallModel& m) {
                   onnx::GraphProto graph;
                   for (int i = 0; i < 300; ++i) {
                     onnx::GraphProto outer;
                     auto& attribute = *outer.add_node()->add_attribute();
                     attribute.set_type(onnx::AttributeProto::GRAPH);
                     attribute.mutable_g()->Swap(&graph);
                     graph.Swap(&outer);
                   }
                   m.model.mutable_graph()->add_node()->add_attribute()->mutable_g()->Swap(&graph);
                 },
                 "the file is not an ONNX model"},
        BadModel{"ExternalData",
                 [](SmallModel& m) {
                   m.model.mutable_graph()->mutable_initializer(0)->set_data_location(onnx::TensorProto::EXTERNAL);
                 },
                 "its data in another file"},
        BadModel{"OutputWithoutAName", [](SmallModel& m) { m.model.mutable_graph()->add_output(); },
                 "no node computes the model's output"},
        BadModel{"NoOutput", [](SmallModel& m) { m.last = "nothing"; }, "no node computes the model's output"},
        BadModel{"OpenExtents",
                 [](SmallModel& m) {
                   m.model.mutable_graph()
                       ->mutable_input(0)
                       ->mutable_type()
                       ->mutable_tensor_type()
                       ->mutable_shape()
                       ->mutable_dim(2)
                       ->clear_dim_value();
                 },
                 "extent that is not fixed"}),
    [](const auto& info) { return info.param.name; });

TEST(OnnxBytes, OfAnythingElseAreRefused) {
  EXPECT_THAT([] { parse_onnx("no model", "bad.onnx", "bad"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("bad.onnx: the file is not an ONNX model")));
  EXPECT_THAT([] { import_onnx("/nowhere.onnx", "bad"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("/nowhere.onnx")));
}

}  // namespace
}  // namespace convoy
