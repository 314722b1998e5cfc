#include "tests/house/rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/support/files.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy::house {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<fs::path> code_files() {
  const std::vector<std::string> endings{".cpp", ".hpp", ".h", ".cu", ".cuh", ".cl"};
  std::vector<fs::path> files;
  for (const std::string& folder : code_folders()) {
    const fs::path root = fs::path(source_folder()) / folder;
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string ending = entry.path().extension().string();
      if (std::find(endings.begin(), endings.end(), ending) != endings.end()) files.push_back(entry.path());
    }
  }
  return files;
}

TEST(House, EveryFileObeysTheRules) {
  const std::vector<fs::path> files = code_files();
  ASSERT_GT(files.size(), 20U) << "the tree was not found at " << source_folder();
  for (const fs::path& file : files) {
    const std::string path = fs::relative(file, source_folder()).generic_string();
    for (const std::string& line : breaches(path, text_of(file))) ADD_FAILURE() << line;
  }
}

/// CONVOY_UNITY compiles several sources of a folder in one.
TEST(House, NamesInUnnamedNamespacesOfAFolderDiffer) {
  std::map<std::string, std::string> places;
  for (const fs::path& file : code_files()) {
    const std::string path = fs::relative(file, source_folder()).generic_string();
    if (file.extension() != ".cpp" || path.starts_with("tests/")) continue;
    for (const auto& [name, line] : private_names(text_of(file))) {
      const std::string place = fmt::format("{}:{}", path, line);
      const auto [other, first] = places.emplace(path.substr(0, path.find('/')) + "/ " + name, place);
      EXPECT_TRUE(first) << place << ": the name " << name << " stands in " << other->second
                         << ", too; give one of them another name";
    }
  }
  EXPECT_GT(places.size(), 100U);
}

/// What people and systems run or read besides the code: scripts, settings and documents.
std::vector<fs::path> other_files() {
  const std::vector<std::string> endings{"", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".yml", ".yaml"};
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(source_folder()); entry != fs::end(entry); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && (name == ".git" || name == ".cache" || name == "build" || name == "runs")) {
      entry.disable_recursion_pending();
      continue;
    }
    const std::string ending = entry->path().extension().string();
    const bool read = std::find(endings.begin(), endings.end(), ending) != endings.end();
    if (read && entry->is_regular_file()) files.push_back(entry->path());
  }
  return files;
}

TEST(House, NoFileNamesAPackageMirror) {
  const std::vector<fs::path> files = other_files();
  const auto install = std::find(files.begin(), files.end(), fs::path(source_folder()) / "scripts/install");
  ASSERT_NE(install, files.end()) << "the scripts were not found in " << source_folder();
  for (const fs::path& file : files) {
    const std::string path = fs::relative(file, source_folder()).generic_string();
    for (const std::string& line : mirror_breaches(path, text_of(file))) ADD_FAILURE() << line;
  }
}

TEST(House, FilesThatNameAnInterpreterAreExecutable) {
  int found = 0;
  for (const fs::path& file : other_files()) {
    if (!text_of(file).starts_with("#!")) continue;
    ++found;
    const fs::perms mode = fs::status(file).permissions();
    EXPECT_NE(mode & fs::perms::owner_exec, fs::perms::none)
        << fs::relative(file, source_folder()).generic_string() << " begins with #! and is not executable: chmod +x";
  }
  EXPECT_GT(found, 20);
}

struct Case {
  std::string path;
  std::string line;
  std::string expected;  ///< part of the message; empty if the line is allowed
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.path << " " << c.line; }

class IncludeTable : public ::testing::TestWithParam<Case> {};

TEST_P(IncludeTable, Judges) {
  const Case& c = GetParam();
  const auto found = include_breaches(c.path, "// a comment\n" + c.line + "\n");
  if (c.expected.empty()) {
    EXPECT_THAT(found, IsEmpty());
  } else {
    EXPECT_THAT(found, ElementsAre(::testing::AllOf(HasSubstr(c.path + ":2: "), HasSubstr(c.expected))));
  }
}

INSTANTIATE_TEST_SUITE_P(
    House, IncludeTable,
    ::testing::Values(
        Case{"core/a.cpp", "#include \"nets/graph/net.hpp\"", "core/ may not include \"nets/graph/net.hpp\""},
        Case{"core/a.cpp", "#include \"core/tensor.hpp\"", ""}, Case{"core/a.cpp", "#include <vector>", ""},
        Case{"core/a.cpp", "#include <fmt/format.h>", ""},
        Case{"core/a.cpp", "#include <spdlog/spdlog.h>", "nothing else"},
        Case{"nets/a.cpp", "#include \"wire/link.hpp\"", "nets/ may not include"},
        Case{"nets/a.cpp", "#include \"kernels/device.hpp\"", "nets/ may not include"},
        Case{"kernels/a.hpp", "#include \"plan/plan.hpp\"", "kernels/ may not include"},
        Case{"plan/a.cpp", "#include \"devices/registry.hpp\"", "plan/ may not include"},
        Case{"slave/a.cpp", "#include \"nets/graph/net.hpp\"", "slave/ may not include"},
        Case{"slave/a.cpp", "  #  include \"train/trunk.hpp\"", "slave/ may not include"},
        Case{"master/a.cpp", "#include \"slave/serve.hpp\"", "master/ may not include"},
        Case{"master/a.cpp", "#include \"nets/graph/net.hpp\"", ""},
        Case{"wire/a.cpp", "#include \"plan/plan.hpp\"", ""},
        Case{"wire/a.cpp", "#include \"plan/planner.hpp\"", "wire/ may not include"},
        Case{"wire/a.cpp", "#include \"protocol_generated.h\"", ""},
        Case{"bench/a.cpp", "#include \"tests/support/stage_cases.hpp\"", "bench/ may not include"},
        Case{"bench/a.cpp", "#include \"slave/serve.hpp\"", ""},
        Case{"tests/wire/a.cpp", "#include \"wire/link.hpp\"", ""},
        Case{"master/a.cpp", "#include \"trunk.hpp\"", "names no folder of the tree"},
        Case{"master/a.cpp", "#include \"../wire/link.hpp\"", "names no folder of the tree"},
        Case{"master/a.cpp", "#include <zmq.hpp>", "ZeroMQ"}, Case{"wire/a.cpp", "#include <zmq.hpp>", ""},
        Case{"slave/a.cpp", "#include <zmq_addon.hpp>", "ZeroMQ"},
        Case{"master/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>", "oneDNN"},
        Case{"kernels/a.cpp", "#include <dnnl.h>", ""}, Case{"master/a.cpp", "#include <Eigen/Dense>", "Eigen"},
        Case{"slave/a.cpp", "#include <yaml-cpp/yaml.h>", "yaml-cpp"},
        Case{"kernels/device.hpp", "#include <CL/cl.h>", "OpenCL"}, Case{"cl/a.cpp", "#include <CL/cl.h>", ""},
        Case{"kernels/cuda.hpp", "#include <cuda_runtime.h>", "no header shows a type of CUDA"},
        Case{"kernels/cuda.cu", "#include <cuda_runtime.h>", ""},
        Case{"master/a.cpp", "#include <gtest/gtest.h>", "GoogleTest"}));

TEST(House, OnlyTheRegistryAsksForBackends) {
  const std::string text = "#ifdef CONVOY_HAS_ONEDNN\n#endif\n#if defined(CONVOY_HAS_CUDA) && 1\n#endif\n";
  EXPECT_THAT(backend_breaches("devices/registry.cpp", text), IsEmpty());
  EXPECT_THAT(backend_breaches("master/main.cpp", text),
              ElementsAre(HasSubstr("master/main.cpp:1: "), HasSubstr("master/main.cpp:3: ")));
  EXPECT_THAT(backend_breaches("core/a.cpp", "#if __has_include(<dnnl.h>)\n"), ::testing::SizeIs(1));
  EXPECT_THAT(backend_breaches("core/a.cpp", "#ifdef NDEBUG\n"), IsEmpty());
}

TEST(House, MemoryHasAnOwner) {
  const std::string good =
      "// a new one\n#include <new>\nlog(\"new run\");\n::operator new(8);\n::new (place) T;\nint "
      "newest(int);\n";
  EXPECT_THAT(ownership_breaches("core/a.cpp", good), IsEmpty());
  const std::string bad = "auto* a = new int(1);\nint* b = static_cast<int*>(malloc(4));\n";
  EXPECT_THAT(ownership_breaches("core/a.cpp", bad),
              ElementsAre(HasSubstr("core/a.cpp:1: "), HasSubstr("core/a.cpp:2: ")));
}

TEST(House, FilesStayUnder400Lines) {
  std::string text;
  for (int line = 1; line < 400; ++line) text += "\n";
  EXPECT_THAT(size_breaches("core/a.cpp", text), IsEmpty());
  EXPECT_THAT(size_breaches("core/a.cpp", text + "\n"), ElementsAre(HasSubstr("400 lines")));
}

TEST(House, LinesHaveAtMost120Columns) {
  EXPECT_THAT(size_breaches("core/a.cpp", std::string(120, 'a') + "\n"), IsEmpty());
  EXPECT_THAT(size_breaches("core/a.cpp", std::string(119, 'a') + "\u00fc\n"), IsEmpty()) << "one column of two bytes";
  EXPECT_THAT(size_breaches("core/a.cpp", "// a\n" + std::string(121, 'a') + "\n"),
              ElementsAre("core/a.cpp:2: 121 columns; a line has at most 120"));
}

TEST(House, MirrorsAreKnownByTheirHosts) {
  // Spelt apart, so that this file obeys the rule.
  const std::string debian = "debian." + std::string("org");
  for (const std::string host : {"deb.", "ftp.de.", "security.", "snapshot."}) {
    EXPECT_THAT(mirror_breaches("scripts/a", "cd /\napt=http://" + host + debian + "/debian\n"),
                ElementsAre(HasSubstr("scripts/a:2: ")))
        << host;
  }
  EXPECT_THAT(mirror_breaches("scripts/a", "https://mirror" + std::string(".example.net/debian\n")),
              ::testing::SizeIs(1));
  EXPECT_THAT(mirror_breaches("docs/a.md", "See https://www." + debian + ", or any mirror. Try --mirror URL.\n"),
              IsEmpty());
}

TEST(House, PrivateNamesAreConstantsAndFunctions) {
  const std::string text =
      "constexpr int kOutside = 1;\nnamespace {\nconstexpr int kMost = 2;\nusing Json = int;\n"
      "std::string text_of(int a) {\n  const int kInner = 3;\n}\n}  // namespace\nint outside(int a) {\n";
  EXPECT_THAT(private_names(text), ElementsAre(::testing::Pair("kMost", 3), ::testing::Pair("text_of(int a) {", 5)));
}

TEST(House, NothingIsLeftForLater) {
  const std::string word = std::string("TO") + "DO";
  EXPECT_THAT(leftover_breaches("core/a.cpp", "int a;\n// " + word + ": more\n"),
              ElementsAre(HasSubstr("core/a.cpp:2")));
  EXPECT_THAT(leftover_breaches("core/a.cpp", "int method" + word + "s;\n"), IsEmpty());
}

}  // namespace
}  // namespace convoy::house
