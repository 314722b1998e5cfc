#include "wire/handshakes.hpp"

#include <algorithm>
#include <thread>

#include "wire/gatekeeper.hpp"
#include "wire/socket.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 5s;
constexpr auto kToSettle = 500ms;

}  // namespace

void Handshakes::begin(const std::string& endpoint) {
  // The monitor refers to the socket, which must not move any more.
  Attempt& attempt = attempts_.emplace_back(Attempt{.endpoint = endpoint,
                                                    .until = Clock::now() + kPatience,
                                                    .socket = zmq::socket_t(context_, zmq::socket_type::dealer),
                                                    .monitor = nullptr});
  configure(attempt.socket, {});
  encrypt_as_client(attempt.socket, key_.master, key_.member);
  attempt.monitor = std::make_unique<Monitor>(context_, attempt.socket, std::to_string(++begun_));
  attempt.socket.connect(endpoint);
}

std::vector<Handshakes::Result> Handshakes::take() {
  std::vector<Result> results;
  std::erase_if(attempts_, [&](const Attempt& each) {
    const bool unbroken = each.monitor->watch();
    const bool succeeded = unbroken && each.monitor->stands();
    const bool failed = !unbroken || each.monitor->take_failed_connection() ||
                        !each.monitor->handshake_fault().empty() || Clock::now() > each.until;
    if (succeeded || failed) {
      const std::string refused = each.monitor->not_admitted() ? each.monitor->handshake_fault() : "";
      results.push_back({each.endpoint, succeeded, refused});
    }
    return succeeded || failed;
  });
  return results;
}

void Handshakes::settle() {
  const auto until = Clock::now() + kToSettle;
  const auto shakes = [](const Attempt& each) { return each.monitor->silent().has_value(); };
  while (std::ranges::any_of(attempts_, shakes) && Clock::now() < until) {
    std::this_thread::sleep_for(5ms);
    take();
  }
}

}  // namespace convoy::wire
