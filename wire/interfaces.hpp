// The addresses of this machine, and the choice of the address at which others reach it.
#pragma once

#include <string>
#include <vector>

namespace convoy::wire {

/// Returns the IP addresses of the network interfaces that are up, in the system's order.
std::vector<std::string> own_addresses();

/// Returns the IP address at which others most likely reach a machine that has these addresses: an IPv4 address, else a
/// global IPv6 address, else an IPv6 address of a private network, else one that the machine gave itself. Returns
/// 127.0.0.1 if there is none of these. `ipv6` says whether the machine listens on IPv6, too.
std::string best_for_others(const std::vector<std::string>& addresses, bool ipv6);

/// Returns the endpoint that people give to slaves, "tcp://HOST:PORT", for the endpoint `listening` at which the master
/// listens. An address of this machine replaces a wildcard.
std::string endpoint_for_slaves(const std::string& listening);

}  // namespace convoy::wire
