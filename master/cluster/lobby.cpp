#include "master/cluster/lobby.hpp"

#include <algorithm>

#include "master/cluster/crew.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Clock;

constexpr auto kPingInterval = 250ms;

}  // namespace

wire::LinkOptions link_options_of(const std::shared_ptr<KeyRing>& keys) {
  if (!keys) return {};
  return {.keys = keys->keys(), .admission = [keys](const std::string& client) { return keys->objection(client); }};
}

Lobby::Lobby(const std::string& endpoint, std::string run, const std::shared_ptr<KeyRing>& keys,
             std::function<void(const std::string&)> notice, wire::Network& network)
    : keys_(keys),
      link_(network.listen(endpoint, link_options_of(keys))),
      guests_(*link_, std::move(run), keys.get(), std::move(notice)) {
  if (keys) beacon_.emplace(link_->endpoint(), keys->keys().master.public_key);
}

Lobby::~Lobby() {
  invariant(crews_.empty(), "a lobby outlives its crews");
  try {
    guests_.dismiss("the run ended");
  } catch (const std::exception&) {
    // A Bye that does not arrive does no harm: the slave notices the closed connection.
  }
}

std::vector<SlaveInfo> Lobby::members() const {
  std::vector<SlaveInfo> all;
  for (const Crew* crew : crews_) all.insert(all.end(), crew->slaves().begin(), crew->slaves().end());
  return all;
}

bool Lobby::take_message(wire::Deadline deadline) {
  auto from = link_->receive(deadline);
  if (!from) return false;
  const auto crew = std::ranges::find_if(crews_, [&](const Crew* each) { return each->has(from->peer); });
  if (crew == crews_.end()) {
    guests_.take(*from, members());
  } else {
    (*crew)->deliver(*std::move(from));
  }
  return true;
}

bool Lobby::is_smallest(const Crew& crew) const {
  return std::ranges::none_of(crews_, [&](const Crew* each) { return each->slaves().size() < crew.slaves().size(); });
}

void Lobby::greet() {
  if (Clock::now() < next_ping_) return;
  next_ping_ = Clock::now() + kPingInterval;
  guests_.greet(members());
  for (Crew* crew : crews_) crew->ping();
}

}  // namespace convoy
