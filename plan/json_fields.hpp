// Bounds-checked numbers from JSON files. This header includes nlohmann/json.hpp and is for the sources of plan/ only.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace convoy {

/// Returns what is wrong with the JSON of a file, in words for people.
inline std::string fault_of(const nlohmann::json::exception& error) {
  if (const auto* syntax = dynamic_cast<const nlohmann::json::parse_error*>(&error)) {
    return fmt::format("it is not JSON from byte {} on", syntax->byte);
  }
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

/// Returns a field that is a whole number and fits an int, from 0 on. Throws Error naming the field.
template <class Json>
int integer(const Json& json, const char* field) {
  return static_cast<int>(whole_number(json.at(field), field, std::numeric_limits<int>::max()));
}

}  // namespace convoy
