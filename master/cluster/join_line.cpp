#include "master/cluster/join_line.hpp"

#include <fmt/core.h>

#include "wire/interfaces.hpp"

namespace convoy {

std::string join_line(const std::string& endpoint, const wire::JoinKey& key, const std::string& name) {
  return fmt::format("CONVOY_KEY={} convoy-slave {}{}", to_text(key), wire::endpoint_for_slaves(endpoint),
                     name.empty() ? "" : " --name " + name);
}

std::string insecure_join_line(const std::string& endpoint) {
  return fmt::format("convoy-slave {} --insecure", wire::endpoint_for_slaves(endpoint));
}

}  // namespace convoy
