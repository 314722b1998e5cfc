#include "wire/trouble.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/clock.hpp"

namespace convoy::wire {
namespace {

constexpr int kPatienceMs = 3000;
constexpr auto kAskAgain = std::chrono::seconds(5);
constexpr auto kSlowName = std::chrono::seconds(6);

/// Tries to connect once. Returns the error number, or 0 if it succeeded.
int error_of_connecting(const addrinfo& to) {
  const int handle = socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (handle < 0) return errno;
  int error = connect(handle, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd item{handle, POLLOUT, 0};
    socklen_t size = sizeof error;
    if (poll(&item, 1, kPatienceMs) <= 0) {
      error = ETIMEDOUT;
    } else if (getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  close(handle);
  return error;
}

/// Whether an error means that this machine has no route to the address, for example to an IPv6 address from IPv4
/// alone.
bool is_out_of_reach(int error) {
  return error == EHOSTUNREACH || error == ENETUNREACH || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

std::string words_for(int error, const Address& address) {
  if (is_out_of_reach(error)) {
    return fmt::format("this machine has no route to {}: check the address and the network", address.host);
  }
  switch (error) {
    case 0: return "";
    case ECONNREFUSED:
      return fmt::format("{} refuses connections at port {}: no master listens there now", address.host, address.port);
    case ETIMEDOUT:
      return fmt::format("{} does not answer at port {}: it may be off, have another address, or be behind a firewall",
                         address.host, address.port);
    default:
      return fmt::format("cannot connect to {} at port {}: {}", address.host, address.port, std::strerror(error));
  }
}

}  // namespace

std::string why_unconnected(const Address& address) {
  const std::string fault = fault_of_host(address.host);
  if (!fault.empty()) return fault;
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  // A name may have several addresses. An error of an address that has a route says more than one of an address
  // without.
  constexpr int kMostAddresses = 4;
  int error = 0;
  int tried = 0;
  for (const addrinfo* each = found; each != nullptr && tried < kMostAddresses; each = each->ai_next, ++tried) {
    const int of_this = error_of_connecting(*each);
    if (of_this == 0) return "";
    if (error == 0 || is_out_of_reach(error)) error = of_this;
  }
  return words_for(error, address);
}

struct Trouble::State {
  explicit State(Address of_master) : address(std::move(of_master)) {}

  const Address address;
  mutable std::mutex mutex;
  std::optional<Clock::time_point> asked;  ///< when the running call began; nothing if none is running
  Clock::time_point answered;              ///< when the last call ended
  std::string answer;
};

Trouble::Trouble(Address address) : state_(std::make_shared<State>(std::move(address))) {}

void Trouble::ask() {
  const auto now = Clock::now();
  {
    const std::scoped_lock lock(state_->mutex);
    const bool fresh = state_->answered != Clock::time_point() && now - state_->answered < kAskAgain;
    if (state_->asked || fresh) return;
    state_->asked = now;
  }
  const auto look = [state = state_] {
    std::string answer = why_unconnected(state->address);
    const std::scoped_lock lock(state->mutex);
    state->answer = std::move(answer);
    state->answered = Clock::now();
    state->asked.reset();
  };
  try {
    std::thread(look).detach();
  } catch (const std::system_error&) {
    // The system refuses a thread now. The trouble is explained later, when it is asked for again.
    const std::scoped_lock lock(state_->mutex);
    state_->asked.reset();
  }
}

std::string Trouble::answer() const {
  const std::scoped_lock lock(state_->mutex);
  if (state_->answer.empty() && state_->asked && Clock::now() - *state_->asked > kSlowName) {
    return fmt::format(
        "the name {} has not resolved yet: no name server answers; check the network, or give an IP address",
        state_->address.host);
  }
  return state_->answer;
}

}  // namespace convoy::wire
