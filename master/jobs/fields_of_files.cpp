#include "master/jobs/fields_of_files.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace convoy {

std::uint64_t read_seed(Fields& fields) {
  const std::string text = fields.text("seed", 64);
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size()) {
    fields.fail("seed", "is not a whole number from 0 to 2^64 - 1");
  }
  return seed;
}

std::string path_in(Fields& fields, const std::string& field) {
  constexpr std::size_t kLongestPath = 4096;
  std::string path = fields.text(field, kLongestPath);
  if (path.empty()) fields.fail(field, "is empty; expected a path");
  return path;
}

bool is_field_name(const std::string& text) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  const auto points = std::count(text.begin(), text.end(), '.');
  return text.find_first_not_of(kLetters) == std::string::npos && (points == 1 || points == 2) &&
         text.find("..") == std::string::npos && text.front() != '.' && text.back() != '.' && text.size() <= 200;
}

std::string path_beside(const std::string& file, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path beside = fs::path(file).parent_path() / path;
  std::error_code ignored;
  return fs::exists(beside, ignored) ? beside.string() : path;
}

}  // namespace convoy
