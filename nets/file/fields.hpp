// Reads the fields of a YAML map, with errors that name file, line and owner.
#pragma once

#include <yaml-cpp/yaml.h>

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace convoy {

/// The fields that `--set` has set, as "owner.field" to value. These fields have no line in the file.
using Applied = std::map<std::string, std::string>;

/// The text as YAML. Throws Error naming `what` and the line if the text is not YAML.
YAML::Node load_yaml(const std::string& text, const std::string& what);

/// One map of a net file: a layer, `training`, and so on.
class Fields {
 public:
  /// `owner` names the map in errors ("layer conv1", "training"), and `path` names it in overrides ("conv1"). Throws
  /// Error unless `node` is a map without repeated keys.
  Fields(const std::string& file, const YAML::Node& node, std::string owner, std::string path, const Applied& applied);

  /// The fields of a whole file whose text is one map, as YAML or JSON. Throws Error naming file and line, with `what`,
  /// if the text is something else, and with the fault if it is not YAML.
  static Fields of_text(const std::string& file, const std::string& text, std::string owner, const std::string& what);

  /// Whether an optional field is present.
  bool has(const std::string& field);
  /// The line of the map in the file, counted from 1.
  int line() const;

  // Each of the following functions throws Error if the field is missing, has another type, or is outside low to high.

  int integer(const std::string& field, int low, int high);
  double number(const std::string& field, double low, double high);
  /// A list of exactly `count` numbers, or one number for all.
  std::vector<double> numbers(const std::string& field, std::size_t count, double low, double high);
  bool boolean(const std::string& field);
  std::string word(const std::string& field);
  /// [rows, columns], or one number for both.
  std::array<int, 2> pair(const std::string& field, int low, int high);
  /// A list of words, or a single word.
  std::vector<std::string> words(const std::string& field);
  /// A list of exactly `count` integers.
  std::vector<int> integers(const std::string& field, std::size_t count, int low, int high);
  /// A list of at most `most` texts of any characters, of at most 256 bytes each.
  std::vector<std::string> texts(const std::string& field, std::size_t most);
  /// A map from words to texts of any characters.
  std::map<std::string, std::string> texts(const std::string& field);
  /// A text of any characters. Errors do not quote it, because it may be a secret.
  std::string text(const std::string& field, std::size_t most_bytes);
  /// A field that is a map itself.
  Fields map(const std::string& field);
  /// A list of at most `most` maps; `owner` names each of them in errors.
  std::vector<Fields> maps(const std::string& field, std::size_t most, const std::string& owner);
  YAML::Node node(const std::string& field);

  /// Throws Error if the map has a field that no function has asked for.
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

/// The word of `known` with the smallest edit distance to `word`, for "did you mean"; empty if there is none.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace convoy
