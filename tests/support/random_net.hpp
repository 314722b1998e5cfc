// Nets drawn from a seed, for property tests: any layers in any order, with branches, sums and a second head.
#pragma once

#include <cstdint>
#include <string>

namespace convoy {

/// Returns a net file. Equal seeds give equal nets.
std::string random_net(std::uint64_t seed);

}  // namespace convoy
