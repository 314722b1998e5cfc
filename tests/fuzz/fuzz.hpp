// Each fuzzer is a function that takes any bytes. Bad input must be refused with an Error; every other failure is a
// defect.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.hpp"

namespace convoy {

template <class Read>
int try_to(Read read) {
  try {
    read();
  } catch (const Error&) {
    // The input was refused, as expected of bad input.
  }
  return 0;
}

}  // namespace convoy
