// A machine with another network than this one, for the code under test: without IPv6, or with names of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace convoy {

/// While it lives, this program cannot open IPv6 sockets.
class WithoutIPv6 {
 public:
  WithoutIPv6();
  ~WithoutIPv6();
  WithoutIPv6(const WithoutIPv6&) = delete;
  WithoutIPv6& operator=(const WithoutIPv6&) = delete;
};

/// While it lives, names resolve to these IP addresses of either family.
class Names {
 public:
  using Addresses = std::map<std::string, std::vector<std::string>>;
  explicit Names(const Addresses& addresses);
  ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
};

}  // namespace convoy
