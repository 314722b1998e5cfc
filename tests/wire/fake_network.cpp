#include "tests/wire/fake_network.hpp"

#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

namespace convoy {
namespace {

std::atomic<bool> no_ipv6{false};
std::mutex names_mutex;
Names::Addresses names;

using Resolve = int (*)(const char*, const char*, const addrinfo*, addrinfo**);

/// Where there is no address of the family that `wanted` asks for, as the system answers for a name.
int resolve(Resolve really, const std::vector<std::string>& addresses, const char* service, const addrinfo* wanted,
            addrinfo** found) {
  addrinfo numeric = wanted == nullptr ? addrinfo{} : *wanted;
  numeric.ai_flags |= AI_NUMERICHOST;
  *found = nullptr;
  for (auto each = addresses.rbegin(); each != addresses.rend(); ++each) {
    // With AI_V4MAPPED, IPv4 addresses count only where there are none of IPv6.
    const bool ipv4 = each->find(':') == std::string::npos;
    if (ipv4 && numeric.ai_family == AF_INET6 && addresses.size() > 1) continue;
    addrinfo* one = nullptr;
    if (really(each->c_str(), service, &numeric, &one) != 0) continue;
    one->ai_next = *found;
    *found = one;
  }
  return *found == nullptr ? EAI_NONAME : 0;
}

}  // namespace

WithoutIPv6::WithoutIPv6() { no_ipv6 = true; }
WithoutIPv6::~WithoutIPv6() { no_ipv6 = false; }

Names::Names(const Addresses& addresses) {
  const std::scoped_lock lock(names_mutex);
  names = addresses;
}
Names::~Names() {
  const std::scoped_lock lock(names_mutex);
  names.clear();
}

}  // namespace convoy

// The program's own functions come before those of the C library, in libzmq as well.

extern "C" int socket(int domain, int type, int protocol) noexcept {
  if (convoy::no_ipv6 && domain == AF_INET6) {
    errno = EAFNOSUPPORT;
    return -1;
  }
  return static_cast<int>(syscall(SYS_socket, domain, type, protocol));
}

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* wanted, addrinfo** found) {
  static const auto really = reinterpret_cast<convoy::Resolve>(dlsym(RTLD_NEXT, "getaddrinfo"));
  std::vector<std::string> addresses;
  {
    const std::scoped_lock lock(convoy::names_mutex);
    const auto known = node == nullptr ? convoy::names.end() : convoy::names.find(node);
    if (known != convoy::names.end()) addresses = known->second;
  }
  return addresses.empty() ? really(node, service, wanted, found)
                           : convoy::resolve(really, addresses, service, wanted, found);
}
