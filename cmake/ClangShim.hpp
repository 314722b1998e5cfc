// scripts/lint and scripts/fuzz include this file before every source, because GCC 12's <source_location> is empty
// under Clang 14, which lacks the builtin behind it.
#pragma once

#include <cstdint>

namespace std {

struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           const char* function = __builtin_FUNCTION(),
                                           unsigned line = __builtin_LINE()) {
    source_location place;
    place.file_ = file;
    place.function_ = function;
    place.line_ = line;
    return place;
  }
  constexpr uint_least32_t line() const { return line_; }
  constexpr uint_least32_t column() const { return 0; }
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  unsigned line_ = 0;
};

}  // namespace std
