// The bytes that the system holds for connections that share a network card.
#pragma once

namespace convoy::wire {

/// A buffer that Convoy does not limit. The system cuts the size down to its own limit.
inline constexpr int kLargestBuffer = 64 * 1024 * 1024;

/// Returns the bytes that each of `connections` may have on the way if they all begin or end in one card: 128 KiB for
/// all of them, which a link of 1 Gbit/s with a round trip of 1 ms holds, and for each at least 16 KiB and four of its
/// segments, of `segment` bytes. A receiver answers every second segment at once, but a single one after 40 ms or more,
/// and a segment between two programs of one machine has 64 KiB.
int share_of_card(int connections, int segment);

/// Returns the bytes of a segment of the connection with this descriptor; 0 if it is no connection.
int segment_of(int descriptor);

/// Sets how many bytes the system may hold in the send buffer of the socket with this descriptor. It may allow fewer.
void set_send_buffer(int descriptor, int bytes);

}  // namespace convoy::wire
