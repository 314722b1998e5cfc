// Reading the fields of a YAML map with errors that name file, line and owner.
#pragma once

#include <yaml-cpp/yaml.h>

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace convoy {

/// What `--set` put into a file, "owner.field" to value: such fields have no line of their own.
using Applied = std::map<std::string, std::string>;

/// One map of a net file: a layer, `training`, and so on.
class Fields {
 public:
  /// `owner` names the map in messages ("layer conv1", "training"); `path` in overrides ("conv1"). Throws Error unless
  /// `node` is a map without repeated keys.
  Fields(const std::string& file, const YAML::Node& node, std::string owner, std::string path, const Applied& applied);

  /// Whether an optional field is given.
  bool has(const std::string& field);
  int line() const;

  /// Each throws Error when the field is missing, or is not of the type, or not within low .. high.
  int integer(const std::string& field, int low, int high);
  double number(const std::string& field, double low, double high);
  /// One number for all, or a list of exactly `count`.
  std::vector<double> numbers(const std::string& field, std::size_t count, double low, double high);
  bool boolean(const std::string& field);
  std::string word(const std::string& field);
  /// One number for both, or [rows, columns].
  std::array<int, 2> pair(const std::string& field, int low, int high);
  /// One to `most` words, or a single one.
  std::vector<std::string> words(const std::string& field);
  /// A list of exactly `count` integers.
  std::vector<int> integers(const std::string& field, std::size_t count, int low, int high);
  /// A list of texts of any letters, `most` of at most 256 each.
  std::vector<std::string> texts(const std::string& field, std::size_t most);
  /// A map of its own.
  Fields map(const std::string& field);
  YAML::Node node(const std::string& field);

  /// Throws Error when a field was never asked for.
  void finish() const;
  /// Throws Error naming file, line and owner.
  [[noreturn]] void fail(const std::string& field, const std::string& what) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string place(const std::string& field) const;
  double to_number(const std::string& field, const YAML::Node& node, double low, double high) const;
  int to_integer(const std::string& field, const YAML::Node& node, int low, int high) const;

  std::string file_;
  YAML::Node node_;
  std::string owner_;
  std::string path_;
  const Applied* applied_;
  std::set<std::string> known_;
};

/// The word of `known` most like `word`, for "did you mean".
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace convoy
