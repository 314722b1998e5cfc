#include "bench/net_settings.hpp"

#include <fmt/format.h>

#include <sstream>

#include "nets/graph/net.hpp"

namespace convoy {

std::vector<std::string> settings_of(const std::string& filters, const std::string& net, std::vector<std::string> set) {
  if (filters.empty()) return set;
  const Cut parts = cut(read_net(net, set));
  std::istringstream counts(filters);
  std::size_t stage = 0;
  for (std::string count; std::getline(counts, count, ':'); ++stage) {
    if (stage == parts.trunk.size())
      fail("--filters {}: {} has only {} convolutions; give at most one number for each", filters, net,
           parts.trunk.size());
    set.push_back(fmt::format("{}.filters={}", parts.trunk[stage].name, count));
  }
  return set;
}

}  // namespace convoy
