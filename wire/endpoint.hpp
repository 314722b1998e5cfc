// Addresses of the form "tcp://HOST:PORT", as users write them.
#pragma once

#include <string>

namespace convoy::wire {

struct Address {
  std::string host;
  int port = 0;
};

/// Parses the address of a master to connect to: an IPv4 address or a name, and a port from 1 to 65535. Does not look
/// the name up. Throws Error if the text is not such an address.
Address address_of_master(const std::string& text);

/// Parses an address to listen at. The host is "*", an IPv4 address, a network interface or a name of this machine; the
/// port is 0 to 65535, where 0 and "*" mean any free port. Throws Error if the text is not such an address or the name
/// does not resolve. `option` is the option that the error names.
Address address_to_listen(const std::string& text, const std::string& option = "--listen");

/// Looks a name up, which may take seconds. Returns the error as a text for people, or an empty text if the name has an
/// IPv4 address.
std::string fault_of_host(const std::string& host);

}  // namespace convoy::wire
