#include "wire/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "wire/endpoint.hpp"

namespace convoy::wire {
namespace {

constexpr int kUseless = std::numeric_limits<int>::max();

/// Returns 0 for the addresses at which others most likely reach a machine, and more for others.
int rank_of(const std::string& ip, bool ipv6) {
  if (is_ipv4(ip)) {
    if (ip.starts_with("127.")) return kUseless;
    return ip.starts_with("169.254.") ? 3 : 0;  // a machine gives itself the latter where nobody gave it one
  }
  in6_addr address{};
  if (!ipv6 || inet_pton(AF_INET6, ip.substr(0, ip.find('%')).c_str(), &address) != 1) return kUseless;
  if ((address.s6_addr[0] & 0xe0) == 0x20) return 1;  // 2000::/3, global
  if ((address.s6_addr[0] & 0xfe) == 0xfc) return 2;  // fc00::/7, of a private network
  return IN6_IS_ADDR_LINKLOCAL(&address) ? 4 : kUseless;
}

}  // namespace

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(each->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    addresses.emplace_back(text.data());
  }
  return addresses;
}

std::string best_for_others(const std::vector<std::string>& addresses, bool ipv6) {
  const auto rank = [ipv6](const std::string& ip) { return rank_of(ip, ipv6); };
  const auto best = std::ranges::min_element(addresses, {}, rank);
  return best == addresses.end() || rank(*best) == kUseless ? "127.0.0.1" : *best;
}

std::string endpoint_for_slaves(const std::string& listening) {
  const Address address = address_to_listen(listening);
  const bool both = address.host == "*" || address.host == "::";
  if (!both && address.host != "0.0.0.0") return listening;
  return "tcp://" + to_text({best_for_others(own_addresses(), both), address.port});
}

}  // namespace convoy::wire
