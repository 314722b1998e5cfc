#include "wire/endpoint.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"

namespace convoy::wire {
namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr int kHighestPort = 65535;

std::optional<int> port_in(std::string_view text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || rest != end) return std::nullopt;
  return port;
}

/// Splits an address into the texts of host and port. `what` names the address in errors; `example` is a valid address.
std::pair<std::string, std::string> split(const std::string& text, const std::string& what,
                                          const std::string& example) {
  const std::string shown = printable(text, 200);
  if (!text.starts_with(kScheme)) {
    fail("{} '{}' does not begin with tcp://; write it like {}", what, shown, example);
  }
  const std::string rest = text.substr(kScheme.size());
  const auto colon = rest.rfind(':');
  if (colon == std::string::npos) fail("{} '{}' has no port; write it like {}", what, shown, example);
  const std::string host = rest.substr(0, colon);
  if (host.find_first_of("[]:") != std::string::npos) {
    fail("{} '{}' is an IPv6 address, which Convoy does not support yet; give the IPv4 address", what, shown);
  }
  const bool plain =
      host == "*" ||
      (!host.empty() && host.find_first_not_of("abcdefghijklmnopqrstuvwxyz"
                                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == std::string::npos);
  if (!plain) fail("{} '{}' has no valid host; write it like {}", what, shown, example);
  return {host, rest.substr(colon + 1)};
}

bool is_number(const std::string& host) {
  in_addr parsed{};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

}  // namespace

Address address_of_master(const std::string& text) {
  constexpr const char* kExample = "tcp://192.168.0.10:5570";
  const auto [host, port] = split(text, "the master's address", kExample);
  if (host == "*") fail("the master's address '{}' has no host; write it like {}", printable(text), kExample);
  const std::optional<int> number = port_in(port);
  if (!number || *number < 1 || *number > kHighestPort) {
    fail("the master's address '{}': the port is not a number from 1 to {}", printable(text, 200), kHighestPort);
  }
  return {host, *number};
}

Address address_to_listen(const std::string& text, const std::string& option) {
  const auto [host, port] = split(text, option, "tcp://*:5570");
  const std::optional<int> number = port == "*" ? 0 : port_in(port);
  if (!number || *number < 0 || *number > kHighestPort) {
    fail("{} '{}': the port is not a number from 0 to {}", option, printable(text, 200), kHighestPort);
  }
  if (host != "*" && if_nametoindex(host.c_str()) == 0) {
    const std::string fault = fault_of_host(host);
    if (!fault.empty()) {
      fail("{} '{}': {}; give an address of this machine, or * for all its addresses", option, printable(text), fault);
    }
  }
  return {host, *number};
}

std::string fault_of_host(const std::string& host) {
  if (is_number(host)) return "";
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (error != 0) return fmt::format("the name {} does not resolve ({})", printable(host), gai_strerror(error));
  freeaddrinfo(found);
  return "";
}

}  // namespace convoy::wire
