#include "tests/support/false_caller.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "core/error.hpp"

namespace convoy {
namespace {

constexpr int kBeaconPort = 5569;
constexpr int kAddresses = 200;
constexpr int kBacklog = 4096;
constexpr auto kPause = std::chrono::microseconds(10'500);

sockaddr_in address(in_addr_t host, int port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_addr.s_addr = htonl(host);
  made.sin_port = htons(static_cast<std::uint16_t>(port));
  return made;
}

}  // namespace

FalseCaller::FalseCaller(std::string public_key)
    : public_key_(std::move(public_key)), silent_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in anywhere = address(INADDR_ANY, 0);
  socklen_t size = sizeof anywhere;
  auto* const plain = reinterpret_cast<sockaddr*>(&anywhere);
  invariant(
      bind(silent_, plain, size) == 0 && listen(silent_, kBacklog) == 0 && getsockname(silent_, plain, &size) == 0,
      "a port that accepts connections");
  silent_port_ = ntohs(anywhere.sin_port);
  thread_ = std::thread([this] {
    for (int number = 0; !stop_; ++number) {
      call(number);
      std::this_thread::sleep_for(kPause);
    }
  });
}

FalseCaller::~FalseCaller() {
  stop_ = true;
  thread_.join();
  close(silent_);
}

void FalseCaller::call(int number) const {
  const int handle = socket(AF_INET, SOCK_DGRAM, 0);
  const int on = 1;
  setsockopt(handle, SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
  const sockaddr_in from = address(INADDR_LOOPBACK + 1 + static_cast<in_addr_t>(number % kAddresses), 0);
  const sockaddr_in to = address(0x7fffffff, kBeaconPort);
  const std::string text = fmt::format("convoy 1 {} {}", number % 2 == 0 ? silent_port_ : 9, public_key_);
  invariant(bind(handle, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0, "an address of 127.0.0.0/8");
  sendto(handle, text.data(), text.size(), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  close(handle);
}

}  // namespace convoy
