// The addresses of this machine, and the one of them by which others reach it.
#pragma once

#include <string>
#include <vector>

namespace convoy::wire {

/// Returns the IP addresses of the network interfaces that are up, in the system's order.
std::vector<std::string> own_addresses();

/// Returns the one of a machine's IP addresses at which others most likely reach it: an IPv4 address, else an IPv6
/// address that is valid in the whole internet, else one of a private network, else one that the machine gave itself.
/// Returns 127.0.0.1 if there is none of these. `ipv6` says whether the machine listens on IPv6 too.
std::string best_for_others(const std::vector<std::string>& addresses, bool ipv6);

/// Returns the endpoint that people give to slaves, "tcp://HOST:PORT", for the endpoint at which the master listens: an
/// address of this machine replaces a wildcard.
std::string endpoint_for_slaves(const std::string& listening);

}  // namespace convoy::wire
