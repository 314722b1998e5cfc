// Members of ensembles and teachers that cannot serve: each is refused with its name, the fault and the mend.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "master/commands/ensemble_member.hpp"
#include "master/commands/teachers.hpp"
#include "model/heads.hpp"
#include "nets/onnx/onnx.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// What differs between the nets of these tests.
struct Variant {
  int size = 6;  ///< rows and columns of the images
  int classes = 3;
  std::string names = "";
  std::string loss = "softmax_cross_entropy";
  std::string more = "";
};

std::string net_text(const Variant& v) {
  return fmt::format(
      "name: small\ninput: {{channels: 1, height: {0}, width: {0}, mean: 0.5, deviation: 0.5}}\n{1}layers:\n"
      "  - {{name: c, type: conv, filters: 2, kernel: 3}}\n  - {{name: out, type: dense, units: {2}}}\n"
      "  - {{name: loss, type: {3}}}\n{4}",
      v.size, v.names, v.classes, v.loss, v.more);
}

/// A folder with some runs, weights and models, and others that are none.
class Store {
 public:
  Store() {
    run("a");
    run("b", {}, 2);
    run("four", {.classes = 4});
    run("cats", {.names = "classes: [cat, dog, emu]\n"});
    run("dogs", {.names = "classes: [dog, cat, emu]\n"});
    run("large", {.size = 7});
    run("squares", {.loss = "squared_error"});
    run("no-weights");
    fs::remove(path("no-weights/weights.safetensors"));
    run("no-net");
    fs::remove(path("no-net/config.yaml"));
    run("cut");
    fs::resize_file(path("cut/weights.safetensors"), 60);
    run("of-four");
    fs::copy_file(path("four/weights.safetensors"), path("of-four/weights.safetensors"),
                  fs::copy_options::overwrite_existing);
    run("nan");
    write(path("nan/config.yaml"), net_text({.more = "training: {batch: 0}\n"}));
    fs::create_directories(path("empty"));
    fs::copy_file(path("a/weights.safetensors"), path("alone.safetensors"));
    write(path("note.txt"), "no weights");
    write(path("broken.onnx"), "no model");
    const Net net = parse_net(net_text({}), "small.yaml");
    write(path("model.onnx"), to_onnx(net, tensors_of(read_member(path("a"), 0))));
    fs::create_directory_symlink(path("a"), path("link"));
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  static void write(const std::string& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }
  void run(const std::string& name, const Variant& variant = {}, std::uint64_t seed = 1) {
    fs::create_directories(path(name));
    write(path(name + "/config.yaml"), net_text(variant));
    const Net net = parse_net(net_text(variant), "small.yaml");
    const Cut parts = cut(net);
    write_weights(path(name + "/weights.safetensors"), parts, {initial_trunk(parts, seed), initial_heads(parts, seed)},
                  net);
  }

  TemporaryFolder folder_;
};

/// Reads the members of an ensemble, and combines them.
void ensemble(const Store& store, const std::vector<std::string>& names, Combination how = Combination::probabilities) {
  std::vector<EnsembleMember> members;
  for (const std::string& name : names) {
    const std::size_t at = name.find('@');
    members.push_back(read_member(at == std::string::npos
                                      ? store.path(name)
                                      : store.path(name.substr(0, at)) + "@" + store.path(name.substr(at + 1)),
                                  0));
  }
  expect_same_classes(members);
  expect_combinable(members, how);
}

/// Gives teachers to a net that is to train.
void teach(const Store& store, const std::vector<std::string>& names, const Variant& student = {},
           const std::string& device = "auto") {
  Net net = parse_net(net_text(student), "student.yaml");
  for (const std::string& name : names) net.training.teaching.teachers.push_back(store.path(name));
  NetOptions options;
  options.device = device;
  const Teachers teachers(net, options, 4);
}

struct BadMember {
  std::string name;
  std::function<void(const Store&)> use;
  std::vector<std::string> expected;
};

void PrintTo(const BadMember& bad, std::ostream* out) { *out << bad.name; }

class BadMembers : public testing::TestWithParam<BadMember> {
 protected:
  static void SetUpTestSuite() { store_ = std::make_unique<Store>(); }
  static void TearDownTestSuite() { store_.reset(); }
  static std::unique_ptr<Store> store_;
};
std::unique_ptr<Store> BadMembers::store_;

TEST_P(BadMembers, AreRefusedWithNameAndMend) {
  try {
    GetParam().use(*store_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    for (const std::string& expected : GetParam().expected) EXPECT_THAT(error.what(), HasSubstr(expected));
  }
}

BadMember of(const std::string& name, const std::vector<std::string>& members, std::vector<std::string> expected,
             Combination how = Combination::probabilities) {
  return {name, [=](const Store& store) { ensemble(store, members, how); }, std::move(expected)};
}

INSTANTIATE_TEST_SUITE_P(
    Ensembles, BadMembers,
    testing::Values(
        of("Nothing", {"a", "none"}, {"/none: there is no such file", "expected the folder of a run", "WEIGHTS@NET"}),
        of("EmptyFolder", {"a", "empty"}, {"/empty: the folder has no config.yaml", "expected the folder of a run"}),
        of("NoWeights", {"a", "no-weights"}, {"/no-weights: the folder has no weights.safetensors"}),
        of("NoNet", {"a", "no-net"}, {"/no-net: the folder has no config.yaml"}),
        of("WeightsAlone", {"a", "alone.safetensors"}, {"neither config.yaml nor alone.yaml is beside", "@NET.yaml"}),
        of("NeitherNor", {"a", "note.txt"}, {"note.txt: the file is neither weights nor an ONNX model"}),
        of("NetAsWeights", {"a", "b/config.yaml"}, {"config.yaml: the file is neither weights"}),
        of("BrokenModel", {"a", "broken.onnx"}, {"broken.onnx"}),
        of("DamagedWeights", {"a", "cut"}, {"cut/weights.safetensors"}),
        of("WeightsOfAnotherNet", {"a", "of-four"}, {"of-four/weights.safetensors", "out.weight"}),
        of("WeightsWithAnotherNet", {"a", "b/weights.safetensors@four/config.yaml"},
           {"b/weights.safetensors", "out.weight"}),
        of("WeightsWithoutTheirNet", {"a", "b/weights.safetensors@none.yaml"}, {"none.yaml", "cannot be read"}),
        of("NoWeightsBesideAt", {"a", "none.safetensors@a/config.yaml"}, {"none.safetensors"}),
        of("BadNet", {"a", "nan"}, {"nan/config.yaml:7", "batch is '0'"}),
        of("OtherNumberOfClasses", {"a", "b", "four"},
           {"/four has 4 classes, but", "/a has 3", "leave one of the two out"}),
        of("OtherNames", {"cats", "a", "dogs"},
           {"class 0 is 'cat' for", "/cats, but 'dog' for", "train both on the same"}),
        of("Twice", {"a", "b", "a"}, {"are the same weights", "count twice"}),
        of("TwiceByALink", {"a", "link"}, {"/a and", "/link are the same weights"}),
        of("FolderAndItsWeights", {"a", "a/weights.safetensors"}, {"are the same weights"}),
        of("NoProbabilities", {"a", "squares"}, {"/squares: its net ends with squared_error", "--vote"}),
        of("LogitsOfTwoKinds", {"a", "squares"}, {"ends with softmax_cross_entropy", "no meaning", "--vote"},
           Combination::logits),
        of("LogitsOfTwoOtherKinds", {"squares", "a"}, {"/squares ends with squared_error and"}, Combination::logits)),
    [](const auto& info) { return info.param.name; });

BadMember taught(const std::string& name, const std::vector<std::string>& teachers, const Variant& student,
                 std::vector<std::string> expected, const std::string& device = "auto") {
  expected.emplace_back("student.yaml: training.teacher");
  return {name, [=](const Store& store) { teach(store, teachers, student, device); }, std::move(expected)};
}

INSTANTIATE_TEST_SUITE_P(
    Teachers, BadMembers,
    testing::Values(
        taught("NoTeacher", {"none"}, {}, {"/none: there is no such file"}),
        taught("UntrainedTeacher", {"no-weights"}, {}, {"the folder has no weights.safetensors"}),
        taught("DamagedTeacher", {"cut"}, {}, {"cut/weights.safetensors"}),
        taught("BrokenModelAsTeacher", {"broken.onnx"}, {}, {"broken.onnx"}),
        taught("OtherInput", {"a", "large"}, {}, {"/large: it reads images of 1x7x7", "reads 1x6x6", "the same input"}),
        taught("OtherNumber", {"four"}, {}, {"/four: it has 4 classes, but the net to train has 3", "the same data"}),
        taught("OtherNamesOfClasses", {"cats"}, {.names = "classes: [cat, emu, dog]\n"},
               {"class 1 is 'dog' for the teacher, but 'emu' for the net to train"}),
        taught("NoLogits", {"squares"}, {}, {"/squares: it ends with squared_error", "softmax_cross_entropy"}),
        taught("PacedDevice", {"a"}, {}, {"no meaning with --device paced:240"}, "paced:240")),
    [](const auto& info) { return info.param.name; });

/// Each of the forms in which a member may be named.
TEST(GoodMembers, AreReadInAllForms) {
  const Store store;
  ensemble(store, {"a", "b/weights.safetensors", "alone.safetensors@a/config.yaml", "model.onnx"});
  ensemble(store, {"cats", "a"});  // a net without names fits any
  ensemble(store, {"squares", "a"}, Combination::votes);
  teach(store, {"a", "b", "model.onnx"}, {.names = "classes: [x, y, z]\n"});
  const EnsembleMember model = read_member(store.path("model.onnx"), 5);
  EXPECT_EQ(model.net.training.batch, 5);
  EXPECT_TRUE(model.net.scales.empty());
  EXPECT_EQ(model.weights->head[0].weights.value.span()[3],
            read_member(store.path("a"), 0).weights->head[0].weights.value.span()[3]);
}

/// A run that goes on must have the teachers that it began with.
TEST(GoodMembers, HaveAFingerprintOfTheirWeights) {
  const Store store;
  const auto fingerprint = [&](const std::vector<std::string>& names) {
    Net net = parse_net(net_text({}), "student.yaml");
    for (const std::string& name : names) net.training.teaching.teachers.push_back(store.path(name));
    const NetOptions options;
    return Teachers(net, options, 4).fingerprint();
  };
  EXPECT_EQ(fingerprint({}), "");
  EXPECT_EQ(fingerprint({"a"}), fingerprint({"link"}));
  EXPECT_NE(fingerprint({"a"}), fingerprint({"b"}));
  EXPECT_NE(fingerprint({"a", "b"}), fingerprint({"b", "a"}));
}

}  // namespace
}  // namespace convoy
