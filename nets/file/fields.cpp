#include "nets/file/fields.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"

namespace convoy {
namespace {

std::string shown(const YAML::Node& node) {
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a map";
  if (!node.IsScalar()) return "nothing";
  const std::string& text = node.Scalar();
  return text.size() > 40 ? "'" + text.substr(0, 40) + "...'" : "'" + text + "'";
}

bool is_word(const std::string& text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(kLetters) == std::string::npos;
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  if (known.empty() || word.size() > 64) return "";
  return *std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return typing_errors(word, a) < typing_errors(word, b);
  });
}

YAML::Node load_yaml(const std::string& text, const std::string& what) {
  try {
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    // YAML takes a word that begins with * for the name of something else in the file.
    const bool named =
        text.starts_with('*') || text.find(" *") != std::string::npos || text.find("[*") != std::string::npos;
    const char* const hint = named ? "; a pattern that begins with * needs double quotes" : "";
    // The parser notices a missing bracket only at the next token, which mostly is on the next line.
    const bool open = error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW || error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW;
    throw Error(fmt::format("{}:{}: the text is not YAML; {}{}", what, error.mark.line + 1,
                            open ? "a bracket or a comma is missing here or at the end of the line before"
                                 : "check brackets, quotes and indentation there",
                            hint));
  }
}

Fields::Fields(const std::string& file, const YAML::Node& node, std::string owner, std::string path,
               const Applied& applied)
    : file_(file), node_(node), owner_(std::move(owner)), path_(std::move(path)), applied_(&applied) {
  if (!node.IsMap())
    fail(fmt::format("expected a map of fields, as in {{name: conv1, type: conv}}, found {}", shown(node)));
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) fail("a field's name is not a word; expected names such as filters");
    if (!seen.insert(entry.first.Scalar()).second) fail(entry.first.Scalar(), "is given twice");
  }
}

Fields Fields::of_text(const std::string& file, const std::string& text, std::string owner, const std::string& what) {
  static const Applied kNone;
  YAML::Node root;
  try {
    root = load_yaml(text, file);
  } catch (const Error& error) {
    throw Error(fmt::format("{}; {}", error.what(), what));
  }
  if (!root.IsMap()) throw Error(fmt::format("{}:1: {}", file, what));
  return {file, root, std::move(owner), "", kNone};
}

bool Fields::has(const std::string& field) {
  known_.insert(field);
  return std::as_const(node_)[field].IsDefined();
}

int Fields::line() const { return node_.Mark().line + 1; }

std::string Fields::place(const std::string& field) const {
  const std::string key = path_.empty() ? field : path_ + "." + field;
  if (const auto set = applied_->find(key); !field.empty() && set != applied_->end()) {
    return fmt::format("{}: {} (set by --set {}={})", file_, owner_, key, set->second);
  }
  int line = node_.Mark().line;
  if (!field.empty() && node_.IsMap()) {
    for (const auto& entry : node_) {
      if (entry.first.IsScalar() && entry.first.Scalar() == field) line = entry.first.Mark().line;
    }
  }
  return fmt::format("{}:{}: {}", file_, line + 1, owner_);
}

void Fields::fail(const std::string& field, const std::string& what) const {
  throw Error(fmt::format("{}: {} {}", place(field), field, what));
}

void Fields::fail(const std::string& what) const { throw Error(fmt::format("{}: {}", place(""), what)); }

YAML::Node Fields::node(const std::string& field) {
  known_.insert(field);
  if (!has(field)) {
    // A field that nobody has asked for and that is spelled much like this one is probably meant.
    const std::size_t likely = field.size() < 6 ? 1 : 2;
    for (const auto& entry : node_) {
      const std::string other = entry.first.Scalar();
      if (known_.count(other) == 0 && typing_errors(other, field) <= likely)
        fail(other, fmt::format("is not a field of this map; did you mean {}?", field));
    }
    fail(fmt::format("{} is missing", field));
  }
  return node_[field];
}

int Fields::to_integer(const std::string& field, const YAML::Node& node, int low, int high) const {
  int value = 0;
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value < low || value > high) {
    fail(field, fmt::format("is {}; expected a whole number from {} to {}", shown(node), low, high));
  }
  return value;
}

int Fields::integer(const std::string& field, int low, int high) { return to_integer(field, node(field), low, high); }

double Fields::number(const std::string& field, double low, double high) {
  return to_number(field, node(field), low, high);
}

double Fields::to_number(const std::string& field, const YAML::Node& node, double low, double high) const {
  double value = NAN;
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(value >= low && value <= high)) {
    fail(field, fmt::format("is {}; expected a number from {} to {}", shown(node), low, high));
  }
  return value;
}

std::vector<double> Fields::numbers(const std::string& field, std::size_t count, double low, double high) {
  const YAML::Node list = node(field);
  if (list.IsScalar()) return std::vector<double>(count, to_number(field, list, low, high));
  if (!list.IsSequence() || list.size() != count) {
    fail(field, fmt::format("is {}; expected a number or a list of {}", shown(list), count));
  }
  std::vector<double> values;
  for (const auto& item : list) values.push_back(to_number(field, item, low, high));
  return values;
}

std::string Fields::text(const std::string& field, std::size_t most_bytes) {
  const YAML::Node value = node(field);
  if (!value.IsScalar() || value.Scalar().size() > most_bytes) {
    fail(field, fmt::format("is no text of at most {} bytes", most_bytes));
  }
  return value.Scalar();
}

std::vector<Fields> Fields::maps(const std::string& field, std::size_t most, const std::string& owner) {
  const YAML::Node list = node(field);
  if (!list.IsSequence() || list.size() > most) fail(field, fmt::format("is no list of at most {} maps", most));
  std::vector<Fields> each;
  for (const YAML::Node& item : list) each.emplace_back(file_, item, owner, "", *applied_);
  return each;
}

std::vector<std::string> Fields::texts(const std::string& field, std::size_t most) {
  constexpr std::size_t kLongest = 256;
  const YAML::Node list = node(field);
  if (!list.IsSequence() || list.size() > most)
    fail(field, fmt::format("is {}; expected a list of at most {} texts", shown(list), most));
  std::vector<std::string> values;
  for (const auto& item : list) {
    if (!item.IsScalar() || item.Scalar().size() > kLongest)
      fail(field, fmt::format("holds {}; expected a text of at most {} bytes", shown(item), kLongest));
    values.push_back(item.Scalar());
  }
  return values;
}

std::map<std::string, std::string> Fields::texts(const std::string& field) {
  constexpr std::size_t kLongest = 4096;
  const YAML::Node map = node(field);
  if (!map.IsMap()) fail(field, fmt::format("is {}; expected a map of texts", shown(map)));
  std::map<std::string, std::string> values;
  for (const auto& entry : map) {
    const bool texts = entry.first.IsScalar() && entry.second.IsScalar();
    if (!texts || !is_word(entry.first.Scalar()) || entry.second.Scalar().size() > kLongest) {
      fail(field, "holds an entry that is not a word and a text, as in {slaves: \"2\"}");
    }
    values[entry.first.Scalar()] = entry.second.Scalar();
  }
  return values;
}

bool Fields::boolean(const std::string& field) {
  const YAML::Node value = node(field);
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  fail(field, fmt::format("is {}; expected true or false", shown(value)));
}

std::string Fields::word(const std::string& field) {
  const YAML::Node value = node(field);
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (!is_word(text)) {
    fail(field, fmt::format("is {}; expected a word of letters, digits, - and _", shown(value)));
  }
  return text;
}

std::array<int, 2> Fields::pair(const std::string& field, int low, int high) {
  const YAML::Node value = node(field);
  if (!value.IsSequence()) {
    const int both = to_integer(field, value, low, high);
    return {both, both};
  }
  const std::vector<int> values = integers(field, 2, low, high);
  return {values[0], values[1]};
}

std::vector<int> Fields::integers(const std::string& field, std::size_t count, int low, int high) {
  const YAML::Node list = node(field);
  if (!list.IsSequence() || list.size() != count) {
    fail(field, fmt::format("is {}; expected a number or a list of {}", shown(list), count));
  }
  std::vector<int> values;
  for (const auto& item : list) values.push_back(to_integer(field, item, low, high));
  return values;
}

std::vector<std::string> Fields::words(const std::string& field) {
  const YAML::Node list = node(field);
  if (!list.IsSequence()) return {word(field)};
  std::vector<std::string> values;
  for (const auto& item : list) {
    if (!item.IsScalar()) fail(field, "holds something other than a name; expected a list of names");
    values.push_back(item.Scalar());
  }
  return values;
}

Fields Fields::map(const std::string& field) {
  const std::string path = path_.empty() ? field : path_ + "." + field;
  return {file_, node(field), owner_.empty() ? field : owner_ + " " + field, path, *applied_};
}

void Fields::finish() const {
  for (const auto& entry : node_) {
    const std::string field = entry.first.Scalar();
    if (known_.count(field) > 0) continue;
    const std::vector<std::string> known(known_.begin(), known_.end());
    fail(field, fmt::format("is not a field of this map; did you mean {}? Known: {}", nearest(field, known),
                            fmt::join(known, ", ")));
  }
}

}  // namespace convoy
