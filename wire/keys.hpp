// Keys of CurveZMQ (curvezmq.org): who may join, and whom a slave trusts. All in Z85, 40 characters each.
#pragma once

#include <string>

namespace convoy::wire {

struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

/// A fresh pair. Throws Error where libzmq was built without CURVE.
KeyPair make_key_pair();

/// Whether a text is a key in Z85.
bool is_key(const std::string& text);

/// What a slave is given: the master's public key, by which it knows the master, and the pair that all slaves show.
struct JoinKey {
  std::string master;
  KeyPair member;
};

/// As people paste it: 128 hexadecimal digits, the master's public key and the members' secret key.
std::string to_text(const JoinKey& key);
/// Throws Error.
JoinKey join_key_from(const std::string& text);

/// What a master keeps.
struct MasterKeys {
  KeyPair master;
  KeyPair member;
  JoinKey join_key() const { return {master.public_key, member}; }
};

}  // namespace convoy::wire
