// Keys of CurveZMQ (curvezmq.org), by which master and slaves authenticate each other. A key is 40 characters of Z85.
#pragma once

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

/// The keys that a slave is given: the master's public key, to recognise the master, and the one pair that all slaves
/// use.
struct JoinKey {
  std::string master;
  KeyPair member;
};

/// The text that people paste, 128 hexadecimal digits: the master's public key, then the slaves' secret key.
std::string to_text(const JoinKey& key);
/// Parses the text of a key. Throws Error if the text is not 128 hexadecimal digits.
JoinKey join_key_from(const std::string& text);

/// The keys that a master stores.
struct MasterKeys {
  KeyPair master;
  KeyPair member;
  JoinKey join_key() const { return {master.public_key, member}; }
};

}  // namespace convoy::wire
