// The slaves that want to take part in a run and are not its members yet.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "master/cluster/key_ring.hpp"
#include "wire/link.hpp"

namespace convoy {

/// The longest text of a slave that is shown to the user, in bytes.
inline constexpr std::size_t kMostWords = 600;

struct SlaveInfo {
  std::string id;      ///< id of its connections
  std::string name;    ///< name for people
  std::string device;  ///< description of its device
  int threads = 1;
  std::size_t memory = 0;      ///< bytes for shards; 0: unlimited
  double memory_factor = 0.0;  ///< see wire::Hello
  int filter_block = 1;
  bool sixteen_bits = false;  ///< whether it can send and receive Pieces in bf16, fp16 and int8
  bool same_bits = false;     ///< whether its device updates weights to the same bits as others
  bool keeps_images = false;  ///< whether it keeps images by their contents
  std::string address;        ///< IP address, as the master sees it
  int peer_port = 0;          ///< TCP port at which it listens for other slaves; 0 for none
  std::string peer_key;       ///< its public key towards other slaves
  std::string key;            ///< its public key as a client, by which it was admitted; empty without encryption
  bool leaving = false;       ///< whether it wants to leave the run
  int steps = 0;              ///< number of steps in which it has taken part
  int signs = 0;              ///< number of signs of life in the second that began at signs_since
  wire::Deadline signs_since;
};

/// Sends a message on a slave's control connection, without waiting. Returns false if the slave is not connected any
/// more.
bool reached(wire::ServerLink& link, const std::string& id, const wire::Message& message);

/// Returns why a slave may take part in no run, as a sentence for its user, or nothing: its release, name, key or
/// device is not one for runs whose devices are `paced` or not, over links with `keys` or, where these are null,
/// without.
std::optional<std::string> objection_to(const wire::ServerLink::From& from, const wire::Hello& hello, bool paced,
                                        KeyRing* keys);

/// Slaves whose Hello was accepted are guests: they wait in the lobby until they become members. A guest is ready once
/// it has attached its data connection and answered a Probe there, so that a silent guest cannot keep a run waiting. No
/// message of a guest throws an exception past this class; at most it ends that guest.
class Guests {
 public:
  /// The guests of the run named `run`. With `keys`, which may be null, guests need a public key towards other slaves
  /// and a name that their key allows. Calls `notice` with a text about each slave that is turned away, and about keys.
  /// The link and the keys must outlive the guests.
  Guests(wire::ServerLink& link, std::string run, KeyRing* keys, std::function<void(const std::string&)> notice);

  /// Handles a message of a sender that is none of the run's `members`.
  void take(const wire::ServerLink::From& from, const std::vector<SlaveInfo>& members);
  /// Pings the guests, drops guests that have gone, are not ready in time or whose keys were revoked, and tells the
  /// user about connections that failed the handshake and about keys. `members` are the run's, for the use of one-time
  /// keys.
  void greet(const std::vector<SlaveInfo>& members);

  std::vector<SlaveInfo> all() const;
  std::size_t size() const { return guests_.size(); }
  int ready() const;
  /// Removes at most `most` ready guests and returns them. Guests from addresses with few losses come first.
  std::vector<SlaveInfo> take_in(std::size_t most);
  /// Sends Bye to all guests.
  void dismiss(const std::string& reason);

  /// Whether the run's devices are paced, as this machine's is. A slave whose device is of the other kind is refused.
  /// By default they compute.
  void expect_paced(bool paced) { paced_ = paced; }
  /// From now on, admits only slaves with these names; other slaves are refused with `reason`, and guests with other
  /// names are sent away with it.
  void admit_only(std::set<std::string> names, std::string reason);
  /// Counts the loss of a member. A slave with several losses in a row is refused for some minutes, unless the run
  /// cannot go on without more slaves.
  void count_loss(const std::string& name, const std::string& address);
  /// Refuses slaves of this name from now on.
  void ban(const std::string& name, const std::string& why) { banned_[name] = why; }
  void forget_losses(const std::string& name) { losses_.erase(name); }
  void need_slaves(bool needed) { needed_ = needed; }

 private:
  struct Guest {
    SlaveInfo info;
    wire::Deadline since;
    bool attached = false;  ///< whether its data connection has arrived
    bool ready = false;     ///< whether it has answered the Probe
  };
  struct Losses {
    int count = 0;
    wire::Deadline last;
  };

  std::optional<std::string> objection(const wire::ServerLink::From& from, const wire::Hello& hello,
                                       const std::vector<SlaveInfo>& members) const;
  /// The reason why a slave's one-time key does not allow it to join beside the others, or nothing.
  std::optional<std::string> objection_by_key(const wire::ServerLink::From& from,
                                              const std::vector<SlaveInfo>& members) const;
  bool lost_too_often(const std::string& name) const;
  bool use_key(const wire::ServerLink::From& from);
  void watch_keys(const std::vector<SlaveInfo>& members);
  bool make_room();
  void admit(const wire::ServerLink::From& from, const wire::Hello& hello, const std::vector<SlaveInfo>& members);
  void probe(Guest& guest);
  void take_from_guest(const wire::ServerLink::From& from);
  void tell_refusal(const wire::Refusal& refusal);

  wire::ServerLink& link_;
  std::string run_;
  bool paced_ = false;
  KeyRing* keys_;
  std::function<void(const std::string&)> notice_;
  std::vector<Guest> guests_;
  std::optional<std::set<std::string>> welcome_;  ///< names of the slaves to admit; without a value, any name
  std::string unwelcome_;                         ///< the reason for refusing other names
  std::map<std::string, std::string> banned_;     ///< by name, why a slave may not come back
  bool needed_ = false;                           ///< whether the run cannot go on without more slaves
  std::map<std::string, Losses> losses_;          ///< losses in a row, by the slave's name
  std::map<std::string, Losses> losses_from_;     ///< losses by address
  std::map<std::string, wire::Deadline> told_;    ///< texts about refusals, and when each may be shown again
};

}  // namespace convoy
