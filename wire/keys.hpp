// Keys of CurveZMQ (curvezmq.org), by which master and slaves authenticate each other. A key is 40 characters of Z85.
#pragma once

#include <functional>
#include <string>

namespace convoy::wire {

struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

/// Makes a new random pair. Throws Error if libzmq was built without CURVE.
KeyPair make_key_pair();

/// Whether a text is a key in Z85.
bool is_key(const std::string& text);

/// The keys that a slave is given: the master's public key, to recognise the master, and a pair by which the master
/// knows the slave. All slaves share one pair, unless a slave has a pair of its own.
struct JoinKey {
  std::string master;
  KeyPair member;
};

/// The text that people paste, 128 hexadecimal digits: the master's public key, then the slave's secret key.
std::string to_text(const JoinKey& key);
/// Parses the text of a key. Throws Error if the text is not 128 hexadecimal digits.
JoinKey join_key_from(const std::string& text);

/// The key pairs that a master stores: its own, and the pair that all slaves without keys of their own share.
struct MasterKeys {
  KeyPair master;
  KeyPair member;
  JoinKey join_key() const { return {master.public_key, member}; }
};

/// Decides about a client by its public key, in Z85: returns an empty text to admit it, else the reason as a clause for
/// people. A link calls it for each handshake, in a thread of its own, and for each message.
using Admission = std::function<std::string(const std::string& public_key)>;

}  // namespace convoy::wire
