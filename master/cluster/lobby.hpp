// The master's end of all connections with slaves. The lobby owns the link, holds the guests, and passes each member's
// messages to the crew of the member.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "master/cluster/guests.hpp"
#include "wire/beacon.hpp"
#include "wire/link.hpp"

namespace convoy {

class Crew;

/// The options of a link that admits the slaves of these keys; without keys it is not encrypted.
wire::LinkOptions link_options_of(const std::shared_ptr<KeyRing>& keys);

/// Any number of crews may share a lobby. A message for a member of one crew waits in the crew's inbox while another
/// crew is served, so that neither can fail because of the other's slaves.
class Lobby {
 public:
  /// Listens at `endpoint` for slaves of the run named `run`. Without keys it accepts every slave, unencrypted. Calls
  /// `notice` with a text about each slave that is turned away. Throws Error naming the endpoint.
  Lobby(const std::string& endpoint, std::string run, const std::shared_ptr<KeyRing>& keys = {},
        std::function<void(const std::string&)> notice = {}, wire::Network& network = wire::tcp_network());
  /// Sends Bye to the guests. No crew may be left.
  ~Lobby();

  /// The endpoint, with the actual port.
  std::string endpoint() const { return link_->endpoint(); }
  wire::ServerLink& link() { return *link_; }
  Guests& guests() { return guests_; }
  /// Null without encryption.
  KeyRing* keys() const { return keys_.get(); }

  /// Takes the next message that arrives before the deadline: that of a member goes into the inbox of its crew, and the
  /// guests take any other. Returns false if none arrived.
  bool take_message(wire::Deadline deadline);
  /// Pings all guests and members when it is due. A member that does not answer is lost to its crew alone.
  void greet();

  /// Whether no crew has fewer members. The smallest crew takes guests in, one at a time if there are others.
  bool is_smallest(const Crew& crew) const;
  bool has_several_crews() const { return crews_.size() > 1; }

  /// Adds a crew to those whose members get their messages, and removes it.
  void add(Crew& crew) { crews_.push_back(&crew); }
  void remove(Crew& crew) { std::erase(crews_, &crew); }

 private:
  std::vector<SlaveInfo> members() const;

  std::shared_ptr<KeyRing> keys_;  ///< null without encryption
  std::unique_ptr<wire::ServerLink> link_;
  Guests guests_;
  std::optional<wire::Beacon> beacon_;  ///< only if the link has keys
  std::vector<Crew*> crews_;
  wire::Deadline next_ping_;
};

}  // namespace convoy
