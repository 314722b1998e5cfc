// Prints the random net of a seed (tests/support/random_net.hpp) for tests in other languages.

#include <fmt/core.h>

#include <cstdlib>

#include "tests/support/random_net.hpp"

int main(int count, char** words) {
  if (count != 2) {
    fmt::print(stderr, "usage: write_random_net SEED\n");
    return 2;
  }
  fmt::print("{}", convoy::random_net(std::strtoull(words[1], nullptr, 10)));
  return 0;
}
