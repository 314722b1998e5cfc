// What both links share. Includes zmq.hpp: for the sources of wire/ alone.
#pragma once

#include <string>
#include <zmq.hpp>

#include "wire/link.hpp"

namespace convoy::wire {

struct Payload::State {
  zmq::message_t message;
};

/// Lets the links move messages into payloads and share them out of payloads.
struct PayloadAccess {
  static Payload wrap(zmq::message_t&& message);
  /// The same bytes once more: a reference, not a copy.
  static zmq::message_t share(const Payload& payload);
};

/// The frames after the routing id: a header, and for a Piece its payload.
struct Frames {
  zmq::message_t header;
  zmq::message_t payload;
  std::size_t count = 0;
};

/// Reads the rest of a multipart message, whatever it holds.
Frames receive_frames(zmq::socket_t& socket);
/// Throws Error when the frames are no valid message.
Envelope decode_frames(Frames&& frames);
/// Sends a header and the payload; false when the queue is full. Throws zmq::error_t.
bool send_frames(zmq::socket_t& socket, const Envelope& envelope);

/// Settings of every socket.
void configure(zmq::socket_t& socket, const LinkOptions& options);
/// And those of a slave's control connection, after configure().
void configure_control(zmq::socket_t& socket, const LinkOptions& options);

/// Milliseconds until the deadline, for poll; 0 when it has passed.
std::chrono::milliseconds remaining(Deadline deadline);
/// Waits until the socket is ready for `event`; false at the deadline or when a signal came.
bool poll(zmq::socket_t& socket, short event, Deadline deadline);

}  // namespace convoy::wire
