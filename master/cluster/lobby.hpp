// The slaves that want to take part in a run and are not its members yet.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/link.hpp"

namespace convoy {

/// The largest number of bytes of a slave's own words that reach the user.
inline constexpr std::size_t kMostWords = 600;

struct SlaveInfo {
  std::string id;      ///< of its connections
  std::string name;    ///< for people
  std::string device;  ///< description
  int threads = 1;
  std::size_t memory = 0;
  int filter_block = 1;
  bool sixteen_bits = false;  ///< takes and gives maps in bf16 and fp16
  std::string address;        ///< IP address, as the master sees it
  int peer_port = 0;          ///< where it listens for other slaves; 0: it does not
  std::string peer_key;       ///< its public key there
  bool leaving = false;       ///< as soon as the run can do without it
  int steps = 0;              ///< that it has taken part in
  int signs = 0;              ///< messages without news, in the second that began at
  wire::Deadline signs_since;
};

/// Sends a message on a slave's control connection, without waiting. Returns false if nobody listens there any more.
bool reached(wire::ServerLink& link, const std::string& id, const wire::Message& message);

/// Slaves that have said Hello are guests: they wait in the lobby until they are taken in. A guest is ready once it has
/// attached its data connection and answered a Probe there, so that no guest keeps a run waiting. Nothing that a guest
/// sends throws past the lobby: it ends that guest at most.
class Lobby {
 public:
  /// For the run named `run`. With `encrypted`, guests need a public key towards other slaves. Tells `notice` who is turned
  /// away. The link must outlive the lobby.
  Lobby(wire::ServerLink& link, std::string run, bool encrypted, std::function<void(const std::string&)> notice);

  /// Handles a message of somebody who is none of the run's `members`.
  void take(const wire::ServerLink::From& from, const std::vector<SlaveInfo>& members);
  /// Shows guests that the master lives, and drops those that have gone, or that are not ready in time.
  void greet();

  std::vector<SlaveInfo> guests() const;
  std::size_t size() const { return guests_.size(); }
  int ready() const;
  /// Removes the guests that are ready, and returns them: at most so many, those of addresses from which few slaves were
  /// lost first.
  std::vector<SlaveInfo> take_in(std::size_t most);
  /// Says Bye to all guests.
  void dismiss(const std::string& reason);

  /// From now on only slaves of these names are let in; others are told `reason`.
  void admit_only(std::set<std::string> names, std::string reason);
  /// A slave that is lost again and again within a short time is not let in for a while, unless the run needs it.
  void count_loss(const std::string& name, const std::string& address);
  void forget_losses(const std::string& name) { losses_.erase(name); }
  void need_slaves(bool needed) { needed_ = needed; }

 private:
  struct Guest {
    SlaveInfo info;
    wire::Deadline since;
    bool attached = false;  ///< its data connection is here
    bool ready = false;     ///< it has answered the Probe
  };
  struct Losses {
    int count = 0;
    wire::Deadline last;
  };

  std::optional<std::string> objection(const wire::ServerLink::From& from, const wire::Hello& hello,
                                       const std::vector<SlaveInfo>& members) const;
  bool lost_too_often(const std::string& name) const;
  bool make_room();
  void admit(const wire::ServerLink::From& from, const wire::Hello& hello, const std::vector<SlaveInfo>& members);
  void probe(Guest& guest);
  void take_from_guest(const wire::ServerLink::From& from);
  void tell_refusal(const wire::Refusal& refusal);

  wire::ServerLink& link_;
  std::string run_;
  bool encrypted_;
  std::function<void(const std::string&)> notice_;
  std::vector<Guest> guests_;
  std::optional<std::set<std::string>> welcome_;  ///< names; nothing: all
  std::string unwelcome_;                         ///< why others are not
  bool needed_ = false;                           ///< the run cannot go on without more slaves
  std::map<std::string, Losses> losses_;          ///< by name
  std::map<std::string, Losses> losses_from_;     ///< by address
  std::map<std::string, wire::Deadline> told_;    ///< refusals, and when they may be told again
};

}  // namespace convoy
