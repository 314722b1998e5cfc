// Addresses of the form "tcp://HOST:PORT", as users write them. An IPv6 address stands in brackets, and a link-local
// one names the network interface of this machine behind it: "tcp://[fe80::1%eth0]:5570".
#pragma once

#include <string>

namespace convoy::wire {

struct Address {
  std::string host;  ///< a name, a network interface, "*", or an IP address; an IPv6 address without brackets
  int port = 0;
};
/// Returns "HOST:PORT", with brackets around an IPv6 address.
std::string to_text(const Address& address);

/// Parses the address of a master to connect to: an IP address or a name, and a port from 1 to 65535. Does not look the
/// name up. Throws Error if the text is not such an address.
Address address_of_master(const std::string& text);

/// Parses an address to listen at. The host is "*", an IP address, a network interface or a name of this machine; the
/// port is 0 to 65535, where 0 and "*" mean any free port. A name is replaced by its IPv4 address, or by its IPv6
/// address if it has no IPv4 address. Throws Error if the text is not such an address or the name does not resolve.
/// `option` is the option that the error names.
Address address_to_listen(const std::string& text, const std::string& option = "--listen");

/// Returns the address at which other slaves connect to a slave that the master sees at this IP address: "HOST:PORT".
/// The host is left out for a slave on the master's machine, because each slave knows that machine by the name under
/// which it reaches the master. A network interface is left out, because it is one of the master.
std::string endpoint_for_peers(const std::string& ip, int port);

/// Parses an address that endpoint_for_peers() made, on a slave that reaches its master at the host `master`. An
/// address that is valid on one network only is looked for on the network of the master. Throws Error if the text is no
/// address.
Address address_of_peer(const std::string& endpoint, const std::string& master);

/// Looks a host up, which may take seconds. Returns the error as a text for people, or an empty text if the host has an
/// IP address.
std::string fault_of_host(const std::string& host);

bool is_ipv4(const std::string& host);
/// Whether a host is an IPv6 address, with or without a network interface.
bool is_ipv6(const std::string& host);

/// Returns an IP address as people write it: an IPv4 address that an IPv6 socket reports, such as ::ffff:192.168.0.10,
/// loses its prefix.
std::string plain_ip(const std::string& ip);

}  // namespace convoy::wire
