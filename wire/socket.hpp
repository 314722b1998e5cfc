// Socket functions that both links use. The header includes zmq.hpp, so only the sources of wire/ may include it.
#pragma once

#include <string>
#include <zmq.hpp>

#include "wire/endpoint.hpp"
#include "wire/link.hpp"

namespace convoy::wire {

struct Payload::State {
  zmq::message_t message;
};

/// Gives the links access to the ZeroMQ message inside a Payload.
struct PayloadAccess {
  /// Makes a payload of a received frame; copies the bytes only if they are not aligned for floats.
  static Payload wrap(zmq::message_t&& message);
  /// Returns a message that refers to the payload's bytes, without a copy.
  static zmq::message_t share(const Payload& payload);
};

/// The frames after the routing id: a header, and for a Piece also its payload.
struct Frames {
  zmq::message_t header;
  zmq::message_t payload;
  std::size_t count = 0;  ///< frames received, including any that are too many
};

/// Reads the rest of a multipart message, valid or not.
Frames receive_frames(zmq::socket_t& socket);
/// Throws Error if the frames are not a valid message.
Envelope decode_frames(Frames&& frames);
/// Sends a header and the payload. Returns false if the queue is full. Throws zmq::error_t.
bool send_frames(zmq::socket_t& socket, const Envelope& envelope);

/// Applies the settings of all sockets.
void configure(zmq::socket_t& socket, const LinkOptions& options);
/// Applies the settings of a slave's control connection; call it after configure().
void configure_control(zmq::socket_t& socket, const LinkOptions& options);

/// Begins to connect to an IP address in its family, and to a name in IPv6 or IPv4, as `own_id`. Throws zmq::error_t.
void connect(zmq::socket_t& socket, const Address& to, const std::string& own_id, bool name_in_ipv6);

/// Listens at an address from address_to_listen(). "*" means IPv4 and IPv6, or IPv4 alone on a machine without IPv6.
/// Throws zmq::error_t.
void listen(zmq::socket_t& socket, const Address& address);

/// Returns the milliseconds until the deadline, rounded up, for poll; 0 if the deadline has passed.
std::chrono::milliseconds remaining(Deadline deadline);
/// Waits until the socket is ready for `event`. Returns false at the deadline or after a signal.
bool poll(zmq::socket_t& socket, short event, Deadline deadline);

}  // namespace convoy::wire
