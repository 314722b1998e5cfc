#include "wire/endpoint.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"

namespace convoy::wire {
namespace {

constexpr std::string_view kScheme = "tcp://";
constexpr int kHighestPort = 65535;
constexpr std::size_t kShown = 200;  // bytes of an address in an error
constexpr const char* kLettersAndDigits =
    "abcdefghijklmnopqrstuvwxyz"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

/// Describes an address in errors.
struct Purpose {
  std::string what;
  std::string example;
  bool to_listen = false;
};

const Purpose kMaster{.what = "the master's address", .example = "tcp://192.168.0.10:5570"};

std::optional<int> port_in(std::string_view text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, port);
  if (error != std::errc() || rest != end) return std::nullopt;
  return port;
}

bool is_word(const std::string& text) {
  return !text.empty() && text.find_first_not_of(kLettersAndDigits) == std::string::npos;
}

/// Returns an IPv6 address without its network interface.
std::string without_zone(const std::string& host) { return host.substr(0, host.find('%')); }

std::optional<in6_addr> ipv6_in(const std::string& host) {
  in6_addr parsed{};
  if (inet_pton(AF_INET6, without_zone(host).c_str(), &parsed) != 1) return std::nullopt;
  return parsed;
}

/// Whether an address is valid on one network only and lacks the network interface that leads to this network.
bool lacks_zone(const std::string& host) {
  const auto address = ipv6_in(host);
  return address && IN6_IS_ADDR_LINKLOCAL(&*address) && host.find('%') == std::string::npos;
}

std::string bracketed(const std::string& host) { return is_ipv6(host) ? fmt::format("[{}]", host) : host; }

/// Splits an address into the texts of host and port, and drops brackets. `shown` is the address as errors print it.
std::pair<std::string, std::string> split(const std::string& text, const std::string& shown, const Purpose& purpose) {
  if (!text.starts_with(kScheme)) {
    const auto scheme = text.find("://");
    if (scheme != std::string::npos) {
      fail("{} '{}' names the transport {}, but Convoy connects machines over TCP only; write it like {}", purpose.what,
           shown, printable(text.substr(0, scheme), kShown), purpose.example);
    }
    fail("{} '{}' does not begin with tcp://; write it like {}", purpose.what, shown, purpose.example);
  }
  const std::string rest = text.substr(kScheme.size());
  const bool brackets = rest.starts_with('[');
  const auto bracket = rest.find(']');
  const auto colon = brackets ? (bracket == std::string::npos ? bracket : bracket + 1) : rest.rfind(':');
  if (colon == std::string::npos || rest.size() <= colon || rest[colon] != ':') {
    fail("{} '{}' has no port; write it like {}", purpose.what, shown, purpose.example);
  }
  if (brackets) return {rest.substr(1, bracket - 1), rest.substr(colon + 1)};
  if (rest.find_first_of("[]:") != colon) {
    fail("{} '{}': an IPv6 address stands in brackets, as in tcp://[2001:db8::10]:5570", purpose.what, shown);
  }
  if (is_ipv6(rest.substr(0, colon))) fail("{} '{}': an IPv6 address stands in brackets", purpose.what, shown);
  return {rest.substr(0, colon), rest.substr(colon + 1)};
}

/// Checks a host that stood in brackets, and returns it as people write it.
std::string checked_ipv6(const std::string& host, const std::string& shown, const Purpose& purpose) {
  const auto zone = host.find('%');
  if (!ipv6_in(host) || (zone != std::string::npos && !is_word(host.substr(zone + 1)))) {
    fail("{} '{}': the brackets hold no IPv6 address; write it like tcp://[2001:db8::10]:5570", purpose.what, shown);
  }
  return plain_ip(host);
}

/// Throws Error if the address lacks its network interface.
void check_zone(const Address& address, const std::string& text, const Purpose& purpose) {
  if (!lacks_zone(address.host)) return;
  fail(
      "{} '{}': an address that begins with fe80 needs the name of this machine's network interface, as in "
      "tcp://[fe80::10%eth0]:5570",
      purpose.what, printable(text, kShown));
}

/// Parses an address. Its host may be "*", and its port 0 or "*", only if `purpose` is to listen.
Address parsed(const std::string& text, const Purpose& purpose) {
  const std::string shown = printable(text, kShown);
  const auto [host, port] = split(text, shown, purpose);
  Address address{host, 0};
  if (text.starts_with("tcp://[")) {
    address.host = checked_ipv6(host, shown, purpose);
  } else if (host == "*" && !purpose.to_listen) {
    fail("{} '{}' has no host; write it like {}", purpose.what, shown, purpose.example);
  } else if (host != "*" && !is_word(host)) {
    fail("{} '{}' has no valid host; write it like {}", purpose.what, shown, purpose.example);
  }
  const int lowest = purpose.to_listen ? 0 : 1;
  const std::optional<int> number = purpose.to_listen && port == "*" ? 0 : port_in(port);
  if (!number || *number < lowest || *number > kHighestPort) {
    fail("{} '{}': the port is not a number from {} to {}", purpose.what, shown, lowest, kHighestPort);
  }
  address.port = *number;
  return address;
}

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Returns the IP addresses of a host. Sets `error` to the result of getaddrinfo().
Found look_up(const std::string& host, int& error) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  error = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  return {found, freeaddrinfo};
}

/// Returns the IPv4 address of a name, or its IPv6 address if it has no other, or else the name itself.
std::string number_of(const std::string& host) {
  int error = 0;
  const Found found = look_up(host, error);
  std::string number = host;
  for (const addrinfo* each = error == 0 ? found.get() : nullptr; each != nullptr; each = each->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    if (each->ai_family == AF_INET) return text.data();
    if (each->ai_family == AF_INET6 && number == host) number = text.data();
  }
  return number;
}

}  // namespace

std::string to_text(const Address& address) { return fmt::format("{}:{}", bracketed(address.host), address.port); }

Address address_of_master(const std::string& text) {
  Address address = parsed(text, kMaster);
  check_zone(address, text, kMaster);
  return address;
}

Address address_to_listen(const std::string& text, const std::string& option) {
  const Purpose purpose{.what = option, .example = "tcp://*:5570", .to_listen = true};
  Address address = parsed(text, purpose);
  check_zone(address, text, purpose);
  if (address.host == "*" || if_nametoindex(address.host.c_str()) != 0) return address;
  const std::string fault = fault_of_host(address.host);
  if (!fault.empty()) {
    fail("{} '{}': {}; give an address of this machine, or * for all its addresses", option, printable(text), fault);
  }
  if (!is_ipv4(address.host) && !is_ipv6(address.host)) address.host = number_of(address.host);
  return address;
}

std::string endpoint_for_peers(const std::string& ip, int port) {
  const bool here = ip.starts_with("127.") || ip == "::1";
  return to_text({here ? "" : without_zone(ip), port});
}

Address address_of_peer(const std::string& endpoint, const std::string& master) {
  const Purpose purpose{.what = "the slave's address", .example = kMaster.example};
  const std::string host = endpoint.starts_with(':') ? bracketed(master) : "";
  Address address = parsed(fmt::format("{}{}{}", kScheme, host, endpoint), purpose);
  const auto zone = master.find('%');
  if (lacks_zone(address.host) && zone != std::string::npos) address.host += master.substr(zone);
  check_zone(address, endpoint, purpose);
  return address;
}

std::string fault_of_host(const std::string& host) {
  if (is_ipv4(host)) return "";
  if (is_ipv6(host)) {
    const auto zone = host.find('%');
    const std::string interface = zone == std::string::npos ? "" : host.substr(zone + 1);
    const bool number = interface.find_first_not_of("0123456789") == std::string::npos;
    if (number || if_nametoindex(interface.c_str()) != 0) return "";
    return fmt::format("this machine has no network interface {}; write the name of one of its own after the %",
                       printable(interface));
  }
  int error = 0;
  look_up(host, error);
  if (error == 0) return "";
  return fmt::format("the name {} does not resolve ({})", printable(host), gai_strerror(error));
}

bool is_ipv4(const std::string& host) {
  in_addr parsed{};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1;
}

bool is_ipv6(const std::string& host) { return ipv6_in(host).has_value(); }

std::string plain_ip(const std::string& ip) {
  const auto address = ipv6_in(ip);
  if (!address || !IN6_IS_ADDR_V4MAPPED(&*address)) return ip;
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address->s6_addr[12], text.data(), text.size());
  return text.data();
}

}  // namespace convoy::wire
