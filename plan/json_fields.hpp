// JSON files from outside the program: their syntax and bounds-checked numbers. This header includes nlohmann/json.hpp
// and is for sources, not for other headers.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"

namespace convoy {

/// Parses the JSON of a file. Throws Error where it is nested deeper than any file of Convoy, and where a field comes
/// twice, and the library's exception (fault_of) where it is not JSON. The library's type that keeps the order of
/// fields must not take foreign files: it compares each field with all others.
inline nlohmann::json parse_json(const std::string& text) {
  constexpr int kDeepest = 16;
  std::vector<std::set<std::string>> open;
  const auto check = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kDeepest) fail("it is nested deeper than {} levels", kDeepest);
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key && !open.back().insert(value.get<std::string>()).second) {
      fail("its field '{}' comes twice", printable(value.get<std::string>(), 80));
    }
    return true;
  };
  return nlohmann::json::parse(text, check);
}

/// Returns what is wrong with the JSON of a file, in words for people.
inline std::string fault_of(const nlohmann::json::exception& error) {
  if (const auto* syntax = dynamic_cast<const nlohmann::json::parse_error*>(&error)) {
    return fmt::format("it is not JSON from byte {} on", syntax->byte);
  }
  constexpr int kTooLarge = 406;
  if (error.id == kTooLarge) return "one of its numbers is too large";
  if (dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr) {
    // The library's text has the missing key, which the reader asked for, between quotation marks.
    const std::string text = error.what();
    const auto first = text.find('\'');
    const auto last = text.rfind('\'');
    if (first == last) return "a field is missing";
    return fmt::format("its field {} is missing", text.substr(first, last - first + 1));
  }
  return "one of its fields has a value of the wrong kind";
}

/// Returns a whole number from 0 to `most`. Throws Error naming the field.
template <class Json>
std::int64_t whole_number(const Json& value, const char* field, std::int64_t most) {
  if (!value.is_number_integer()) {
    fail("{} must be a whole number, but is {}", field,
         value.is_number() ? "a fraction, or too large" : value.type_name());
  }
  // A number that does not fit into 64 bits is out of bounds as a double too.
  const auto size = value.template get<double>();
  if (size < 0.0 || size > static_cast<double>(most)) fail("{} is {}, expected 0 to {}", field, size, most);
  return value.template get<std::int64_t>();
}

/// Returns a time in seconds, a speed or a number of bytes, from 0 to 1e18. Throws Error naming the field.
template <class Json>
double amount(const Json& json, const char* field) {
  constexpr double kMost = 1e18;
  const double value = json.at(field).template get<double>();
  if (!(value >= 0.0 && value <= kMost)) fail("{} is {}, expected 0 to {}", field, value, kMost);
  return value;
}

/// Returns a field that is a whole number and fits an int, from 0 on. Throws Error naming the field.
template <class Json>
int integer(const Json& json, const char* field) {
  return static_cast<int>(whole_number(json.at(field), field, std::numeric_limits<int>::max()));
}

}  // namespace convoy
