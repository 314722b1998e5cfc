// Tests the import of weights that have other programs' names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/files.hpp"
#include "model/checkpoint.hpp"
#include "model/torch_weights.hpp"
#include "tests/support/files.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kNets = source_folder() + "/nets/";

const Net& small() {
  static const Net net = parse_net(
      "name: small\ninput: {channels: 2, height: 6, width: 6}\nlayers:\n"
      "  - {name: conv, type: conv, filters: 4, kernel: 3, groups: 2, bias: false}\n"
      "  - {name: norm, type: batch_norm}\n  - {name: relu, type: relu}\n"
      "  - {name: out, type: dense, units: 3}\n  - {name: loss, type: softmax_cross_entropy}\n",
      "small.yaml");
  return net;
}

/// A file with the tensors that the net needs, named after modules, with the values 0, 1, 2, ...
SafetensorsFile model_of(const Net& net, const ModuleNames& names) {
  SafetensorsFile file{.tensors = zero_tensors(cut(net)), .metadata = {}};
  float value = 0.0F;
  for (NamedTensor& tensor : file.tensors) {
    for (float& each : tensor.values) each = value++;
    const std::size_t dot = tensor.name.find('.');
    const auto named = names.find(tensor.name.substr(0, dot));
    if (named != names.end()) tensor.name = named->second + tensor.name.substr(dot);
  }
  return file;
}

std::string said(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

class NamesFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string written(const std::string& text) const {
    write_file(folder_ + "/names.yaml", {text.begin(), text.end()});
    return folder_ + "/names.yaml";
  }
  std::string refusal(const std::string& text) const {
    return said([&] { read_module_names(written(text), small()); });
  }

  std::string folder_ = testing::TempDir() + "/convoy-names-" + std::to_string(getpid());
};

/// PyTorch's ConvTranspose2d has channels first, and its kernels are those of a convolution in reverse.
TEST(TorchWeights, OfTransposedConvolutionsAreReordered) {
  const Net net = parse_net(
      "name: t\ninput: {channels: 4, height: 3, width: 3}\nlayers:\n"
      "  - {name: up, type: conv_transpose, filters: 6, kernel: [2, 3], stride: 2, groups: 2}\n"
      "  - {name: out, type: dense, units: 3}\n  - {name: loss, type: softmax_cross_entropy}\n",
      "t.yaml");
  SafetensorsFile file = model_of(net, {});
  NamedTensor& weights = file.tensors[0];
  ASSERT_THAT(weights.dims, ElementsAre(6, 2, 2, 3));
  EXPECT_THAT(said([&] { take_torch_weights(file, "f", net, {}); }),
              HasSubstr("tensor up.weight is 6x2x2x3, but up.weight of the net needs 4x3x2x3"));
  weights.dims = {4, 3, 2, 3};
  const std::vector<float> taken = take_torch_weights(file, "f", net, {}).tensors[0].values;
  // Filter 4 is the second of group 1, whose second channel is 3; row 0, column 2 there is row 1, column 0 in PyTorch.
  EXPECT_EQ(taken[((4 * 2 + 1) * 2 + 0) * 3 + 2], weights.values[((3 * 3 + 1) * 2 + 1) * 3 + 0]);
}

/// ConvNeXt has dense layers of each pixel, (units, channels), and a parameter of factors, (channels, 1, 1).
TEST(TorchWeights, OfPixelsAndFactorsHaveFewerExtents) {
  const Net net = parse_net(
      "name: t\ninput: {channels: 2, height: 3, width: 3}\nlayers:\n"
      "  - {name: wide, type: conv, filters: 6, kernel: 1}\n"
      "  - {name: scale, type: conv, filters: 6, kernel: 1, groups: 6, bias: false}\n"
      "  - {name: out, type: dense, units: 3}\n  - {name: loss, type: softmax_cross_entropy}\n",
      "t.yaml");
  SafetensorsFile file = model_of(net, {});
  ASSERT_THAT(file.tensors[0].dims, ElementsAre(6, 2, 1, 1));
  file.tensors[0].dims = {6, 2};
  ASSERT_EQ(file.tensors[2].name, "scale.weight");
  file.tensors[2].name = "block.layer_scale";
  file.tensors[2].dims = {6, 1, 1};
  const TorchWeights taken = take_torch_weights(file, "f", net, {{"scale", "block.layer_scale"}});
  EXPECT_THAT(taken.tensors[0].dims, ElementsAre(6, 2, 1, 1));
  EXPECT_EQ(taken.tensors[0].values, file.tensors[0].values);
  EXPECT_EQ(taken.tensors[2].name, "scale.weight");
  EXPECT_THAT(taken.tensors[2].dims, ElementsAre(6, 1, 1, 1));
  EXPECT_EQ(taken.tensors[2].values, file.tensors[2].values);
  EXPECT_THAT(taken.unused, testing::IsEmpty());
  file.tensors[2].dims = {1, 6};
  EXPECT_THAT(said([&] {
                take_torch_weights(file, "f", net, {{"scale", "block.layer_scale"}});
              }),
              HasSubstr("tensor block.layer_scale is 1x6, but scale.weight of the net needs 6x1x1x1"));
}

TEST(TorchWeights, ThatAreNoNumbersAreRefused) {
  for (const auto& [tensor, value] : {std::pair{"conv.weight", std::nanf("")}, std::pair{"norm.running_var", -1.0F}}) {
    SafetensorsFile file = model_of(small(), {});
    std::ranges::find(file.tensors, tensor, &NamedTensor::name)->values[0] = value;
    const std::string refusal = said([&] { take_torch_weights(file, "f", small(), {}); });
    EXPECT_THAT(refusal, HasSubstr(fmt::format("f: value 0 of tensor {} is", tensor)));
  }
}

/// A reader that compared each name with all others would take minutes.
TEST(TorchWeights, AreTakenFromManyTensors) {
  SafetensorsFile file = model_of(small(), {});
  constexpr std::size_t kMany = 300000;
  for (std::size_t i = 0; i < kMany; ++i) file.tensors.push_back({fmt::format("other{}.weight", i), {0}, {}});
  EXPECT_EQ(take_torch_weights(file, "f", small(), {}).unused.size(), kMany);
  EXPECT_THAT(said([&] { take_torch_weights(file, "f", small(), {{"conv", "nowhere"}}); }), HasSubstr(", ..."));
}

TEST_F(NamesFile, IsRefusedWhereItIsNoSmallFile) {
  EXPECT_THAT(said([] { read_module_names("/dev/zero", small()); }), HasSubstr("/dev/zero: it is a device or a pipe"));
  EXPECT_THAT(said([] { read_module_names("/proc", small()); }), HasSubstr("/proc: it is a folder"));
  EXPECT_THAT(refusal(std::string(std::size_t{2} << 20, ' ')), HasSubstr("at most 1048576"));
  EXPECT_THAT(refusal("conv: " + std::string(300000, '[')), HasSubstr("this is no YAML"));
}

TEST_F(NamesFile, TakesEachLayersWeightsFromItsModule) {
  const ModuleNames names = read_module_names(written("conv: features.0.conv\nnorm: features.0.bn\n"), small());
  SafetensorsFile file = model_of(small(), names);
  std::ranges::reverse(file.tensors);
  file.tensors.push_back({"aux.weight", {1}, {0.0F}});
  const TorchWeights taken = take_torch_weights(file, "f", small(), names);
  std::vector<std::string> tensors;
  float value = 0.0F;
  for (const NamedTensor& tensor : taken.tensors) {
    tensors.push_back(tensor.name);
    for (const float each : tensor.values) EXPECT_EQ(each, value++) << tensor.name;
  }
  EXPECT_THAT(tensors, ElementsAre("conv.weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
                                   "out.weight", "out.bias"));
  EXPECT_THAT(taken.unused, ElementsAre("aux.weight"));
  EXPECT_THAT(taken.tensors[0].dims, ElementsAre(4, 1, 3, 3));
}

TEST_F(NamesFile, SaysWhatIsMissingAndWhatThereIs) {
  const SafetensorsFile file = model_of(small(), {{"conv", "stem"}});
  const std::string missing = said([&] { take_torch_weights(file, "f.safetensors", small(), {}); });
  EXPECT_THAT(missing, HasSubstr("f.safetensors: the file has no tensor conv.weight for layer conv"));
  EXPECT_THAT(missing, HasSubstr("--names"));
  EXPECT_THAT(missing, HasSubstr("stem, norm, out"));
  const std::string extents = said([&] { take_torch_weights(file, "f", small(), {{"conv", "out"}}); });
  EXPECT_THAT(extents, HasSubstr("tensor out.weight is 3x64, but conv.weight of the net needs 4x1x3x3"));
}

TEST_F(NamesFile, RefusesWhatIsNoMapOfLayers) {
  EXPECT_THAT(refusal("- conv\n"), HasSubstr("names.yaml: the file is not a map"));
  EXPECT_THAT(refusal("conv: [a]\n"), HasSubstr("names.yaml:1: expected a layer and a module"));
  EXPECT_THAT(refusal("conv: a\nnrm: b\n"),
              HasSubstr("names.yaml:2: the net has no layer nrm with weights; did you mean norm"));
  EXPECT_THAT(refusal("relu: a\n"), HasSubstr("no layer relu with weights"));
  EXPECT_THAT(refusal("conv: a\nconv: b\n"), HasSubstr("names.yaml:2: layer conv comes twice"));
  EXPECT_THAT(refusal("conv: {a\n"), HasSubstr("names.yaml:"));
  EXPECT_THAT(said([] { read_module_names("/none.yaml", small()); }), HasSubstr("/none.yaml: the file is missing"));
}

class ShippedNames : public testing::TestWithParam<std::string> {};

// Each layer with weights has exactly one module.
TEST_P(ShippedNames, NameAModuleForEachLayer) {
  const Net net = read_net(kNets + GetParam() + ".yaml");
  const std::string model = GetParam().substr(GetParam().find('/') + 1);
  const ModuleNames names = read_module_names(kNets + "names/torchvision-" + model + ".yaml", net);
  std::set<std::string> modules;
  for (const auto& [layer, module] : names) modules.insert(module);
  EXPECT_EQ(static_cast<std::ptrdiff_t>(names.size()), std::ranges::count_if(net.layers, has_weights));
  EXPECT_EQ(modules.size(), names.size());
}

// The number in the first line is the one that PyTorch counts.
TEST(TorchvisionNets, HaveTheParametersOfTheModels) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kNets + "torchvision")) {
    SCOPED_TRACE(entry.path().string());
    const Net net = read_net(entry.path().string());
    EXPECT_EQ(net.name, entry.path().stem().string());
    EXPECT_FALSE(cut(net).trunk.empty());
    EXPECT_THAT(read_text(entry.path().string(), std::size_t{1} << 20),
                HasSubstr(fmt::format(" It has {} parameters.\n", parameter_count(net))));
    ++seen;
  }
  EXPECT_GE(seen, 21);
}

std::vector<std::string> nets_with_names() {
  std::vector<std::string> nets{"resnet34", "squeezenet", "vgg16e"};
  for (const auto& entry : std::filesystem::directory_iterator(kNets + "torchvision")) {
    nets.push_back("torchvision/" + entry.path().stem().string());
  }
  std::ranges::sort(nets);
  return nets;
}

INSTANTIATE_TEST_SUITE_P(All, ShippedNames, testing::ValuesIn(nets_with_names()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '/', '_');
  return name;
});

}  // namespace
}  // namespace convoy
