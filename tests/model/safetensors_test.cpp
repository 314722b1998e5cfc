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
using testing::Not;

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
  EXPECT_EQ(TensorsByName(read, file).get("a", {2, 3}).values, sample().tensors[0].values);
  EXPECT_EQ(TensorsByName(read, file).get("b", {1}).values, sample().tensors[1].values);
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
      "metadata = header.pop('__metadata__')\n"
      "assert metadata.pop('net') == 'small'\n"
      "assert sorted(metadata) == ['xxh3_64', 'xxh3_64:a', 'xxh3_64:b']\n"
      "assert all(len(bytes.fromhex(checksum)) == 8 for checksum in metadata.values())\n"
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
  EXPECT_EQ(TensorsByName(file, "f").get("h", {2}).values, (std::vector<float>{1.0F, -2.5F}));
  EXPECT_EQ(TensorsByName(file, "f").get("b", {1, 2}).values, (std::vector<float>{1.0F, -2.5F}));
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
  const std::string nested = std::string(80000, '[') + std::string(80000, ']');
  std::string deep_map;
  for (int i = 0; i < 80000; ++i) deep_map += R"({"a":)";
  static const std::vector<BadFile> cases{
      {"Nothing", {}, "0 bytes are too few"},
      {"SevenBytes", Bytes(7), "7 bytes are too few"},
      {"HeaderLongerThanTheFile", with_length(3), "its header claims 3 bytes"},
      {"HugeHeader", with_length(~std::uint64_t{0}), "its header claims"},
      {"NoJson", bytes_of("hello", 0), "its header is not JSON"},
      {"NoHeader", bytes_of("", 0), "its header is not JSON"},
      {"AList", bytes_of("[]", 0), "not a JSON object"},
      {"TooDeep", bytes_of(R"({"a":{"b":{"c":{"d":{"e":{}}}}}})", 0), "nested too deep"},
      {"VeryDeepList", bytes_of("{\"a\":{\"shape\":" + deep, 0), "nested too deep"},
      {"VeryDeepMap", bytes_of(deep_map, 0), "nested too deep"},
      {"DeepShape", bytes_of(tensor(f32, nested, "[0,4]"), 4), "nested too deep"},
      {"DeepType", bytes_of(tensor(nested, "[1]", "[0,4]"), 4), "nested too deep"},
      {"DeepOffsets", bytes_of(tensor(f32, "[1]", nested), 4), "nested too deep"},
      {"DeepUnknownField", bytes_of(R"({"t":{"x":)" + nested + "}}", 0), "nested too deep"},
      {"DeepMetadata", bytes_of(R"({"__metadata__":{"x":)" + nested + "}}", 0), "not a map of texts"},
      {"DeepTensor", bytes_of(R"({"t":)" + nested + "}", 0), "tensor t: expected dtype"},
      {"HugeNumber", bytes_of(tensor(f32, "[1e999]", "[0,4]"), 4), "its header is not JSON from byte"},
      {"NoNumber", bytes_of(tensor(f32, "[NaN]", "[0,4]"), 4), "its header is not JSON from byte"},
      {"ShapeTwice", bytes_of(R"({"t":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,4]}})", 4), "twice"},
      {"MetadataTwice", bytes_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice"},
      {"MetadataKeyTwice", bytes_of(R"({"__metadata__":{"a":"","a":""}})", 0), "twice"},
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

/// A reader that compared each name with all others would take minutes for this header.
TEST(Safetensors, ManyTensorsAreReadInLinearTime) {
  constexpr int kMany = 400000;
  std::string header = "{";
  for (int i = 0; i < kMany; ++i) {
    header += fmt::format(R"({}"t{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", i > 0 ? "," : "", i);
  }
  const SafetensorsFile file = parse_safetensors(bytes_of(header + "}", 0), "x");
  EXPECT_EQ(file.tensors.size(), std::size_t{kMany});
  const TensorsByName by_name(file, "x");
  for (int i = 0; i < kMany; ++i) ASSERT_NE(by_name.find(fmt::format("t{}", i)), nullptr);
}

TEST(Safetensors, ErrorsDoNotRepeatHostileTexts) {
  const std::string name(std::size_t{1} << 20, '\x1b');
  const std::string escaped = R"(\u001b)";
  std::string header = R"({")";
  for (std::size_t i = 0; i < name.size() / 16; ++i) header += escaped;
  header += R"(":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})";
  try {
    parse_safetensors(bytes_of(header, 4), "x");
    FAIL() << "the file was accepted";
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 1000U);
    EXPECT_THAT(error.what(), Not(HasSubstr("\x1b")));
  }
}

/// The contents of a file that is not damaged, and the error of one that is.
std::string error_of(const Bytes& bytes) {
  try {
    parse_safetensors(bytes, "x.safetensors");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Bytes replaced(Bytes bytes, const std::string& from, const std::string& to) {
  const auto at = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
  EXPECT_NE(at, bytes.end()) << from;
  std::copy(to.begin(), to.end(), at);
  return bytes;
}

TEST(Checksums, FindEveryFlippedBit) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/x.safetensors";
  write_safetensors(file, sample());
  const Bytes sound = read_file(file);
  ASSERT_EQ(error_of(sound), "");
  EXPECT_TRUE(read_safetensors(file).checked);
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    Bytes bytes = sound;
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    EXPECT_NE(error_of(bytes), "") << "bit " << bit;
  }
}

TEST(Checksums, NameWhatIsDamaged) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/x.safetensors";
  write_safetensors(file, sample());
  const Bytes sound = read_file(file);
  Bytes values = sound;
  values.back() ^= 1U;
  EXPECT_THAT(error_of(values), HasSubstr("x.safetensors: tensor b: its values do not have their checksum"));
  EXPECT_THAT(error_of(replaced(sound, R"("net":"small")", R"("net":"smell")")),
              HasSubstr("its header does not have its checksum"));
  EXPECT_THAT(error_of(replaced(sound, R"("xxh3_64":)", R"("xxh3_65":)")),
              HasSubstr("the checksum of its header is missing"));
}

/// Programs that keep the metadata write the same header in another way.
TEST(Checksums, HoldForAHeaderThatIsWrittenInAnotherWay) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/x.safetensors";
  write_safetensors(file, sample());
  const Bytes sound = read_file(file);
  std::uint64_t length = 0;
  std::memcpy(&length, sound.data(), 8);
  std::string header(sound.begin() + 8, sound.begin() + 8 + static_cast<std::ptrdiff_t>(length));
  while (header.back() == ' ') header.pop_back();
  for (std::size_t at = 0; (at = header.find(":[", at)) != std::string::npos; at += 4) header.replace(at, 2, " : [");
  Bytes bytes = bytes_of(header, sound.size() - 8 - length);
  std::copy(sound.begin() + 8 + static_cast<std::ptrdiff_t>(length), sound.end(),
            bytes.end() - static_cast<std::ptrdiff_t>(sound.size() - 8 - length));
  EXPECT_EQ(error_of(bytes), "");
}

/// Pins the function: the hash of no bytes, as xxHash's documentation gives it for XXH3 of 64 bits.
TEST(Checksums, AreXxh3) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/x.safetensors";
  write_safetensors(file, {.tensors = {{"none", {0}, {}}}, .metadata = {}});
  const Bytes bytes = read_file(file);
  EXPECT_THAT(std::string(bytes.begin(), bytes.end()), HasSubstr(R"("xxh3_64:none":"2d06800538d394c2")"));
}

TEST(Checksums, AreNotAskedOfOtherPrograms) {
  const Bytes bytes = bytes_of(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  EXPECT_FALSE(parse_safetensors(bytes, "x").checked);
}

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
