#include "tests/house/rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/source_folder.hpp"

namespace convoy::house {
namespace {

using Names = std::set<std::string>;

/// The folders that each folder may include besides itself, from cmake/folders.txt. An entry with a slash is one
/// header.
const std::map<std::string, Names>& folder_table() {
  static const std::map<std::string, Names> table = [] {
    std::map<std::string, Names> read;
    std::ifstream lines(source_folder() + "/cmake/folders.txt");
    for (std::string line; std::getline(lines, line);) {
      const auto colon = line.find(':');
      if (line.starts_with('#') || colon == std::string::npos) continue;
      std::istringstream allowed(line.substr(colon + 1));
      Names& names = read[line.substr(0, colon)];
      for (std::string name; allowed >> name;) names.insert(name);
    }
    return read;
  }();
  return table;
}

/// A library whose headers only some folders may include.
struct Library {
  std::string name;
  std::regex header;
  Names folders;
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> table{
      {"ZeroMQ", std::regex("zmq[._a-z]*"), {"wire", "tests"}},
      {"FlatBuffers", std::regex("flatbuffers/.*"), {"wire", "tests"}},
      {"xxHash", std::regex("xxh.*"), {"model", "wire"}},
      {"oneDNN", std::regex("(oneapi/)?dnnl.*"), {"kernels", "bench", "tests"}},
      {"Eigen", std::regex("(unsupported/)?Eigen/.*"), {"kernels", "bench", "tests"}},
      {"OpenMP", std::regex("omp\\.h"), {"kernels", "bench", "tests"}},
      {"yaml-cpp", std::regex("yaml-cpp/.*"), {"nets", "master", "tests"}},
      {"CLI11", std::regex("CLI/.*"), {"cli", "devices", "master", "slave", "study", "bench"}},
      {"GoogleTest", std::regex("g(test|mock)/.*"), {"tests"}},
      {"OpenCL", std::regex("(CL|OpenCL)/.*"), {"cl", "tests"}},
      {"CUDA", std::regex("(cuda|cudnn|cublas|nvml|nvrtc).*"), {"kernels"}},
  };
  return table;
}

std::string folder_of(const std::string& path) {
  const auto slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool is_header(const std::string& path) { return path.ends_with(".hpp") || path.ends_with(".h"); }

std::string breach(const std::string& path, int line, const std::string& what) {
  return fmt::format("{}:{}: {}", path, line, what);
}

/// Calls `look(line number, line)` for each line of the text, without its end.
void each_line(const std::string& text, const std::function<void(int, const std::string&)>& look) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) look(number, line);
}

std::string check_own(const std::string& path, const std::string& header) {
  const std::string from = folder_of(path);
  const std::string to = folder_of(header);
  if (from == "wire" && header.ends_with("_generated.h")) return "";
  if (!folder_table().contains(to)) {
    return fmt::format("\"{}\" names no folder of the tree; quotes are for Convoy's own headers, from the root",
                       header);
  }
  const Names& allowed = folder_table().at(from);
  if (to == from || allowed.contains(to) || allowed.contains(header)) return "";
  return fmt::format("{}/ may not include \"{}\", only itself, {}", from, header, fmt::join(allowed, ", "));
}

std::string check_library(const std::string& path, const std::string& header) {
  const std::string from = folder_of(path);
  for (const Library& library : libraries()) {
    if (!std::regex_match(header, library.header)) continue;
    if (!library.folders.contains(from)) {
      return fmt::format("<{}> ({}) belongs to {} alone", header, library.name, fmt::join(library.folders, ", "));
    }
    if (library.name == "CUDA" && is_header(path)) {
      return fmt::format("<{}>: no header shows a type of CUDA, its sources do", header);
    }
  }
  const bool standard = header.find('.') == std::string::npos && header.find('/') == std::string::npos;
  static const Names c_library{"fcntl.h", "malloc.h", "sys/mman.h", "unistd.h"};
  if (from == "core" && !standard && !c_library.contains(header) && !header.starts_with("fmt/")) {
    return fmt::format("<{}>: core/ includes the standard libraries and fmt, nothing else", header);
  }
  return "";
}

}  // namespace

const std::vector<std::string>& code_folders() {
  static const std::vector<std::string> folders = [] {
    std::vector<std::string> names;
    for (const auto& [name, allowed] : folder_table()) names.push_back(name);
    return names;
  }();
  return folders;
}

std::vector<std::string> include_breaches(const std::string& path, const std::string& text) {
  static const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
  std::vector<std::string> found;
  each_line(text, [&](int number, const std::string& line) {
    std::smatch match;
    if (!std::regex_match(line, match, include)) return;
    const std::string what = match[1] == "\"" ? check_own(path, match[2]) : check_library(path, match[2]);
    if (!what.empty()) found.push_back(breach(path, number, what));
  });
  return found;
}

std::vector<std::string> backend_breaches(const std::string& path, const std::string& text) {
  static const std::regex condition(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b.*(CONVOY_HAS_|__has_include).*)");
  std::vector<std::string> found;
  if (path == "devices/registry.cpp") return found;
  each_line(text, [&](int number, const std::string& line) {
    if (!std::regex_match(line, condition)) return;
    found.push_back(breach(path, number, "only devices/registry.cpp asks which backends were built"));
  });
  return found;
}

std::vector<std::string> ownership_breaches(const std::string& path, const std::string& text) {
  static const std::regex quoted(R"("(\\.|[^"\\])*"|//.*|#\s*include.*|\boperator new\b|::new \()");
  static const std::regex raw(R"(\b(new|malloc|free)\b\s*[(A-Za-z_:])");
  std::vector<std::string> found;
  each_line(text, [&](int number, const std::string& line) {
    if (!std::regex_search(std::regex_replace(line, quoted, ""), raw)) return;
    found.push_back(breach(path, number, "memory has an owner: a container or a smart pointer"));
  });
  return found;
}

std::vector<std::string> size_breaches(const std::string& path, const std::string& text) {
  constexpr auto kMostLines = 400;
  constexpr auto kMostColumns = 120;
  std::vector<std::string> found;
  const auto lines = std::count(text.begin(), text.end(), '\n');
  if (lines >= kMostLines) {
    found.push_back(breach(path, 1, fmt::format("{} lines; a file stays under {}", lines, kMostLines)));
  }
  // clang-format leaves comments as they are.
  each_line(text, [&](int number, const std::string& line) {
    const auto columns = std::ranges::count_if(line, [](char byte) { return (byte & '\xC0') != '\x80'; });  // of UTF-8
    if (columns <= kMostColumns) return;
    found.push_back(breach(path, number, fmt::format("{} columns; a line has at most {}", columns, kMostColumns)));
  });
  return found;
}

std::vector<std::string> leftover_breaches(const std::string& path, const std::string& text) {
  // Spelt apart, so that this file obeys its own rule.
  static const std::regex leftover(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X)\\b");
  std::vector<std::string> found;
  each_line(text, [&](int number, const std::string& line) {
    if (std::regex_search(line, leftover)) found.push_back(breach(path, number, "finish it or open an issue"));
  });
  return found;
}

std::vector<std::string> mirror_breaches(const std::string& path, const std::string& text) {
  static const std::regex mirror(
      R"(\b((deb|ftp|security|snapshot|archive|ports|cdn)[a-z0-9.-]*\.(debian|ubuntu)\.(org|net|com))"
      R"(|mirrors?\.[a-z0-9.-]+\.[a-z]+/))");
  std::vector<std::string> found;
  each_line(text, [&](int number, const std::string& line) {
    if (!std::regex_search(line, mirror)) return;
    found.push_back(breach(path, number, "names a package mirror; take the system's own apt sources, or an option"));
  });
  return found;
}

std::map<std::string, int> private_names(const std::string& text) {
  static const std::regex constant(R"(^(constexpr|const|inline|static|thread_local)\b.*?\b(k[A-Z]\w*) *[={\[;].*)");
  static const std::regex function(R"(^[A-Za-z_][\w:<>&*, \[\]]* [&*]?(\w+\(.*))");
  std::map<std::string, int> names;
  bool inside = false;
  each_line(text, [&](int number, const std::string& line) {
    if (line.starts_with("namespace {")) inside = true;
    if (line.starts_with("}  // namespace")) inside = false;
    std::smatch match;
    if (!inside) return;
    if (std::regex_match(line, match, constant)) {
      names.emplace(match[2], number);
    } else if (std::regex_match(line, match, function)) {
      names.emplace(match[1], number);
    }
  });
  return names;
}

std::vector<std::string> breaches(const std::string& path, const std::string& text) {
  std::vector<std::string> all;
  for (const auto& rule :
       {include_breaches, backend_breaches, ownership_breaches, size_breaches, leftover_breaches, mirror_breaches}) {
    const std::vector<std::string> some = rule(path, text);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace convoy::house
