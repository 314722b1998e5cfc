// The bytes that the system holds for connections that share a network card.
#pragma once

namespace convoy::wire {

/// A buffer that Convoy does not limit. The system cuts the size down to its own limit.
inline constexpr int kLargestBuffer = 64 * 1024 * 1024;

/// Returns the bytes that each of `connections` may have on the way if they all begin or end in one card: 128 KiB for
/// all of them, which a link of 1 Gbit/s with a round trip of 1 ms holds, and at least 16 KiB for each.
int share_of_card(int connections);

/// Sets how many bytes the system may hold in the send buffer of the socket with this descriptor. It may allow fewer.
void set_send_buffer(int descriptor, int bytes);

}  // namespace convoy::wire
