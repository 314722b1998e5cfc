// Tests models whose weights lie in files beside them.

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "tests/nets/idioms.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

/// A model whose weights "w" are in a file of its folder.
class OnnxBeside : public testing::Test {
 protected:
  OnnxBeside() {
    flat(model);
    const std::vector<float> values = model.values("w");
    Bytes bytes(16 + values.size() * sizeof(float));
    std::memcpy(bytes.data() + 16, values.data(), bytes.size() - 16);
    write_file(folder.path() + "/w.data", bytes);
    tensor.clear_float_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    set("location", "w.data");
    set("offset", "16");
    set("length", std::to_string(bytes.size() - 16));
  }
  void set(const std::string& key, const std::string& value) {
    for (auto& entry : *tensor.mutable_external_data()) {
      if (entry.key() == key) return entry.set_value(value);
    }
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  ImportedNet imported() {
    const std::string bytes = model.bytes();
    write_file(folder.path() + "/model.onnx", {bytes.begin(), bytes.end()});
    return import_onnx(folder.path() + "/model.onnx", "model");
  }
  void expect_refused(const std::string& says) {
    EXPECT_THAT([&] { imported(); },
                testing::ThrowsMessage<Error>(testing::AllOf(testing::HasSubstr("tensor"), testing::HasSubstr(says))));
  }

  TemporaryFolder folder;
  SmallModel model;
  onnx::TensorProto& tensor = model.tensor("w");
};

TEST_F(OnnxBeside, AreRead) { EXPECT_EQ(imported().tensors.at(0).values, SmallModel().values("w")); }

TEST_F(OnnxBeside, MustBeInTheFolder) {
  for (const char* place : {"../w.data", "/etc/hostname", "a/../../w.data", ""}) {
    set("location", place);
    expect_refused("outside of the model's folder");
  }
  const TemporaryFolder other;
  write_file(other.path() + "/w.data", Bytes(448));
  fs::create_symlink(other.path() + "/w.data", folder.path() + "/link");
  set("location", "link");
  expect_refused("outside of the model's folder");
}

TEST_F(OnnxBeside, MustBeThere) {
  set("location", "nobody.data");
  expect_refused("not in the folder");
  fs::create_directory(folder.path() + "/inside");
  set("location", "inside");
  expect_refused("not a file");
}

TEST_F(OnnxBeside, MustBeWhole) {
  set("offset", "20");
  expect_refused("cut off");
  set("offset", "18446744073709551615");
  expect_refused("cut off");
  set("offset", "-4");
  expect_refused("not a number");
  set("offset", "16");
  set("length", "428");
  expect_refused("its extents need 432");
}

TEST_F(OnnxBeside, MustNotBeShared) {
  for (int i = 0; i < 4; ++i) {
    auto& copy = *model.model.mutable_graph()->add_initializer();
    copy = model.tensor("w");
    copy.set_name("w" + std::to_string(i));
  }
  expect_refused("share bytes");
}

TEST_F(OnnxBeside, AreNotReadOfBytes) {
  EXPECT_THAT([&] { parse_onnx(model.bytes(), "bytes.onnx", "bytes"); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("has its data in another file")));
}

}  // namespace
}  // namespace convoy
