// Numbers of JSON files, with bounds. Includes nlohmann/json.hpp: for the sources of plan/ alone.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace convoy {

/// A whole number from 0 to `most`. Throws Error naming the field.
template <class Json>
std::int64_t whole_number(const Json& value, const char* field, std::int64_t most) {
  if (!value.is_number_integer()) {
    fail("{} must be a whole number, and is {}", field,
         value.is_number() ? "a fraction, or too large" : value.type_name());
  }
  // What does not fit is far away as a double, too.
  const auto size = value.template get<double>();
  if (size < 0.0 || size > static_cast<double>(most)) fail("{} is {}, expected 0 to {}", field, size, most);
  return value.template get<std::int64_t>();
}

template <class Json>
int integer(const Json& json, const char* field) {
  return static_cast<int>(whole_number(json.at(field), field, std::numeric_limits<int>::max()));
}

}  // namespace convoy
