#include "wire/beacon.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "wire/endpoint.hpp"
#include "wire/keys.hpp"

namespace convoy::wire {
namespace {

constexpr std::string_view kBegin = "convoy 1 ";
constexpr auto kInterval = std::chrono::seconds(1);

sockaddr_in address(in_addr_t ip, int port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_addr.s_addr = ip;
  made.sin_port = htons(static_cast<std::uint16_t>(port));
  return made;
}

/// The broadcast address of a network interface, or nothing if the interface cannot broadcast.
std::optional<in_addr_t> broadcast_of(const ifaddrs& network) {
  if ((network.ifa_flags & IFF_UP) == 0) return std::nullopt;
  if ((network.ifa_flags & IFF_LOOPBACK) != 0) return inet_addr("127.255.255.255");
  if ((network.ifa_flags & IFF_BROADCAST) == 0 || network.ifa_broadaddr == nullptr) return std::nullopt;
  return reinterpret_cast<const sockaddr_in*>(network.ifa_broadaddr)->sin_addr.s_addr;
}

/// A UDP socket that is closed on destruction.
class Socket {
 public:
  Socket() : handle_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (handle_ >= 0) close(handle_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int handle() const { return handle_; }

 private:
  int handle_;
};

}  // namespace

std::string to_text(const Call& call) { return fmt::format("{}{} {}", kBegin, call.port, call.key); }

std::optional<Call> call_from(std::string_view bytes) {
  if (!bytes.starts_with(kBegin)) return std::nullopt;
  bytes.remove_prefix(kBegin.size());
  Call call;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), call.port);
  if (error != std::errc() || call.port < 1 || call.port > 65535) return std::nullopt;
  bytes.remove_prefix(static_cast<std::size_t>(end - bytes.data()));
  if (!bytes.starts_with(' ')) return std::nullopt;
  call.key = bytes.substr(1);
  if (!is_key(call.key)) return std::nullopt;
  return call;
}

// ---- the master's side ---------------------------------------------------------------------------------------------

Beacon::Beacon(const std::string& endpoint, const std::string& public_key) {
  const Address address = address_to_listen(endpoint);
  host_ = address.host == "*" || address.host == "::" ? "0.0.0.0" : address.host;
  text_ = to_text(Call{address.port, public_key});
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      call();
      stopped_.wait_for(lock, kInterval, [this] { return stop_; });
    }
  });
}

Beacon::~Beacon() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

/// Interfaces come and go, so they are listed anew for each call. An interface that refuses a datagram is skipped.
void Beacon::call() const {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> networks(list, freeifaddrs);
  const Socket caller;
  const int on = 1;
  setsockopt(caller.handle(), SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
  const in_addr_t host = inet_addr(host_.c_str());
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const bool ours =
        host == INADDR_ANY || reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr == host;
    const auto to = ours ? broadcast_of(*each) : std::nullopt;
    if (!to) continue;
    const sockaddr_in everybody = address(*to, kBeaconPort);
    sendto(caller.handle(), text_.data(), text_.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
           reinterpret_cast<const sockaddr*>(&everybody), sizeof everybody);
  }
}

// ---- the slave's side ----------------------------------------------------------------------------------------------

CallListener::CallListener() : handle_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  // Several slaves on one machine listen at the same port.
  setsockopt(handle_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in anywhere = address(INADDR_ANY, kBeaconPort);
  if (bind(handle_, reinterpret_cast<const sockaddr*>(&anywhere), sizeof anywhere) == 0) return;
  const int error = errno;
  if (handle_ >= 0) close(handle_);
  fail("cannot listen for the master's broadcasts at UDP port {}: {}; give the master's address instead", kBeaconPort,
       std::strerror(error));
}

CallListener::~CallListener() { close(handle_); }

std::optional<CallListener::Heard> CallListener::next(std::chrono::milliseconds patience) const {
  pollfd item{handle_, POLLIN, 0};
  if (poll(&item, 1, static_cast<int>(patience.count())) <= 0) return std::nullopt;
  std::array<char, 512> bytes;
  sockaddr_in sender{};
  socklen_t size = sizeof sender;
  const ssize_t count =
      recvfrom(handle_, bytes.data(), bytes.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&sender), &size);
  if (count <= 0) return std::nullopt;
  const auto call = call_from({bytes.data(), static_cast<std::size_t>(count)});
  std::array<char, INET_ADDRSTRLEN> text{};
  if (!call || inet_ntop(AF_INET, &sender.sin_addr, text.data(), text.size()) == nullptr) return std::nullopt;
  return Heard{*call, fmt::format("tcp://{}:{}", text.data(), call->port)};
}

}  // namespace convoy::wire
