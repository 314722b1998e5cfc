// What each fuzzer is: a function that takes any bytes. Error is how bad input is refused; all else is a defect.
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
    // Refused, as it should be.
  }
  return 0;
}

}  // namespace convoy
