// Tests that safetensors files are read back, that an independent reader reads them, and that damaged files are
// refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/random.hpp"
#include "model/safetensors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

SafetensorsFile sample() {
  return {.tensors = {{"a", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"b", {1}, {7.5F}}}, .metadata = {{"net", "small"}}};
}

/// A file with this header and `values` bytes of values.
Bytes bytes_of(const std::string& header, std::size_t values) {
  Bytes bytes(8 + header.size() + values, 0);
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::copy(header.begin(), header.end(), bytes.begin() + 8);
  return bytes;
}

TEST(Safetensors, GoThereAndBack) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/x.safetensors";
  write_safetensors(file, sample());
  const SafetensorsFile read = read_safetensors(file);
  ASSERT_EQ(read.tensors.size(), 2U);
  EXPECT_EQ(read.get(file, "a", {2, 3}).values, sample().tensors[0].values);
  EXPECT_EQ(read.get(file, "b", {1}).values, sample().tensors[1].values);
  EXPECT_EQ(read.metadata, sample().metadata);
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
}

/// Reads a file with an independent reader in Python, written from the description of the format.
TEST(Safetensors, OtherProgramsReadThem) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/x.safetensors";
  write_safetensors(file, sample());
  const std::string program =
      "import json, struct, sys\n"
      "data = open(sys.argv[1], 'rb').read()\n"
      "length, = struct.unpack('<Q', data[:8])\n"
      "assert length % 8 == 0\n"
      "header = json.loads(data[8:8 + length])\n"
      "assert header.pop('__metadata__') == {'net': 'small'}\n"
      "for name, entry in header.items():\n"
      "    begin, end = entry['data_offsets']\n"
      "    values = struct.unpack('<%df' % ((end - begin) // 4), data[8 + length + begin:8 + length + end])\n"
      "    print(name, entry['dtype'], entry['shape'], list(values))\n";
  Process python({"/usr/bin/env", "python3", "-c", program, file});
  const int code = python.wait(std::chrono::seconds(20));
  if (code == 127) GTEST_SKIP() << "python3 is not installed";
  EXPECT_EQ(code, 0) << python.output();
  EXPECT_THAT(python.output(), HasSubstr("a F32 [2, 3] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]"));
  EXPECT_THAT(python.output(), HasSubstr("b F32 [1] [7.5]"));
}

TEST(Safetensors, ReadsHalvesAndPassesOverCounters) {
  Bytes bytes = bytes_of(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                         R"("b":{"dtype":"BF16","shape":[1,2],"data_offsets":[4,8]},)"
                         R"("n.num_batches_tracked":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})",
                         16);
  const std::array<std::uint16_t, 4> values{0x3C00, 0xC100, 0x3F80, 0xC020};  // 1, -2.5, 1, -2.5
  std::memcpy(bytes.data() + bytes.size() - 16, values.data(), 8);
  const SafetensorsFile file = parse_safetensors(bytes, "f");
  ASSERT_EQ(file.tensors.size(), 2U);
  EXPECT_EQ(file.get("f", "h", {2}).values, (std::vector<float>{1.0F, -2.5F}));
  EXPECT_EQ(file.get("f", "b", {1, 2}).values, (std::vector<float>{1.0F, -2.5F}));
}

struct BadFile {
  std::string name;
  Bytes bytes;
  std::string says;
};

void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.name; }

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

Bytes with_length(std::uint64_t length) {
  Bytes bytes = bytes_of("{}", 0);
  std::memcpy(bytes.data(), &length, 8);
  return bytes;
}

const std::vector<BadFile>& bad_files() {
  const std::string f32 = "\"F32\"";
  const std::string deep = std::string(100000, '[');
  static const std::vector<BadFile> cases{
      {"Nothing", {}, "0 bytes are too few"},
      {"SevenBytes", Bytes(7), "7 bytes are too few"},
      {"HeaderLongerThanTheFile", with_length(3), "its header claims 3 bytes"},
      {"HugeHeader", with_length(~std::uint64_t{0}), "its header claims"},
      {"NoJson", bytes_of("hello", 0), "its header is not JSON"},
      {"NoHeader", bytes_of("", 0), "its header is not JSON"},
      {"AList", bytes_of("[]", 0), "not a JSON object"},
      {"TooDeep", bytes_of(R"({"a":{"b":{"c":{"d":{"e":{}}}}}})", 0), "nested too deep"},
      {"VeryDeepList", bytes_of("{\"a\":" + deep, 0), "its header is not JSON"},
      {"CutOffJson", bytes_of(R"({"t":{)", 0), "its header is not JSON"},
      {"NotUtf8", bytes_of("{\"\xFF\xFE\":1}", 0), "its header is not JSON"},
      {"TensorIsANumber", bytes_of(R"({"t":1})", 0), "tensor t: expected dtype"},
      {"NoDtype", bytes_of(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4), "expected dtype"},
      {"NoShape", bytes_of(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4), "expected dtype"},
      {"OtherType", bytes_of(tensor("\"F64\"", "[2]", "[0,16]"), 16), "its type is \"F64\"; convert it to F32"},
      {"TypeIsANumber", bytes_of(tensor("32", "[1]", "[0,4]"), 4), "its type is 32"},
      {"ShapeIsAText", bytes_of(tensor(f32, "\"1\"", "[0,4]"), 4), "its shape is not a list"},
      {"NegativeExtent", bytes_of(tensor(f32, "[-1]", "[0,4]"), 4), "its shape has the invalid extent -1"},
      {"FractionalExtent", bytes_of(tensor(f32, "[1.0]", "[0,4]"), 4), "its shape has the invalid extent 1.0"},
      {"HugeExtent", bytes_of(tensor(f32, "[99999999999999999]", "[0,4]"), 4), "its shape has the invalid extent"},
      {"ProductWrapsAround", bytes_of(tensor(f32, "[4294967296,4294967296]", "[0,0]"), 0), "too many values"},
      {"NineExtents", bytes_of(tensor(f32, "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), "at most 8"},
      {"OneOffset", bytes_of(tensor(f32, "[1]", "[0]"), 4), "are not [begin, end]"},
      {"NegativeOffset", bytes_of(tensor(f32, "[1]", "[-4,0]"), 4), "are not [begin, end]"},
      {"OffsetsTurned", bytes_of(tensor(f32, "[1]", "[4,0]"), 4), "lie outside"},
      {"OffsetsBeyond", bytes_of(tensor(f32, "[2]", "[0,8]"), 4), "cut off or damaged"},
      {"ShapeAndOffsetsDiffer", bytes_of(tensor(f32, "[2]", "[0,4]"), 4), "its shape has 2 values"},
      {"BytesLeftOver", bytes_of(tensor(f32, "[1]", "[0,4]"), 8), "4 bytes follow the last tensor"},
      {"Gap", bytes_of(tensor(f32, "[1]", "[4,8]"), 8), "overlap or leave a gap"},
      {"Overlap",
       bytes_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],)"
                R"("data_offsets":[0,4]}})",
                4),
       "overlap or leave a gap"},
      {"NamedTwice",
       bytes_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],)"
                R"("data_offsets":[0,4]}})",
                4),
       "twice"},
      {"MetadataIsAList", bytes_of(R"({"__metadata__":[]})", 0), "not a map of texts"},
      {"MetadataOfNumbers", bytes_of(R"({"__metadata__":{"a":1}})", 0), "not a map of texts"},
  };
  return cases;
}

class BadFiles : public testing::TestWithParam<BadFile> {};

TEST_P(BadFiles, AreRefused) {
  try {
    parse_safetensors(GetParam().bytes, "x.safetensors");
    FAIL() << "the file was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.safetensors"));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, BadFiles, testing::ValuesIn(bad_files()),
                         [](const auto& each) { return each.param.name; });

/// Parses bytes, which must give a file or an Error. The sanitizers look for other faults.
TEST(Safetensors, DamagedBytesNeverDoWorseThanAnError) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/x.safetensors";
  write_safetensors(file, sample());
  const Bytes sound = read_file(file);
  const auto survives = [](const Bytes& bytes) {
    try {
      parse_safetensors(bytes, "x");
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  ASSERT_TRUE(survives(sound));
  for (std::size_t length = 0; length < sound.size(); ++length) {
    EXPECT_FALSE(survives({sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(length)})) << length;
  }
  Random random(1, 1);
  for (int round = 0; round < 20000; ++round) {
    Bytes bytes = sound;
    for (std::uint32_t changes = 1 + random.below(3); changes > 0; --changes) {
      bytes[random.below(static_cast<std::uint32_t>(bytes.size()))] = static_cast<std::uint8_t>(random.below(256));
    }
    survives(bytes);
  }
}

TEST(Safetensors, PlacesThatCannotBeWrittenAreNamed) {
  try {
    write_safetensors("/nowhere/x.safetensors", sample());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/x.safetensors"));
  }
}

}  // namespace
}  // namespace convoy
