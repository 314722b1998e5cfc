// Addresses of the form "tcp://HOST:PORT", as users write them.
#pragma once

#include <string>

namespace convoy::wire {

struct Address {
  std::string host;
  int port = 0;
};

/// The address of a master to connect to: an IPv4 address or a name, and a port from 1 to 65535. Does not look the name
/// up. Throws Error that says how to write it.
Address address_of_master(const std::string& text);

/// The address to listen at: "*", an IPv4 address, a network interface or a name of this machine, and a port from 0 to
/// 65535, where 0 and "*" are any free port. Throws Error where the text is none or the name does not resolve. `option`
/// is the option to name in the message.
Address address_to_listen(const std::string& text, const std::string& option = "--listen");

/// Why a name has no IPv4 address; empty if it has one. Asks the name servers, which may take seconds.
std::string fault_of_host(const std::string& host);

}  // namespace convoy::wire
