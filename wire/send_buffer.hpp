// How much of what a connection sends the system may hold. A card or a switch with a full queue drops packets of some
// connections and not of others; TCP then gives these connections unequal parts of the link for seconds. A node that waits
// for values of several others would wait for the slowest. With few bytes on the way nothing is dropped, and connections
// that have equally many on the way are equally fast.
#pragma once

namespace convoy::wire {

/// Returns the bytes that the system may hold for each of `connections` that leave one card or end in one card: 128 KiB for
/// all of them, which a link of 1 Gbit/s with a round trip of 1 ms holds, and at least 16 KiB for each.
int send_buffer(int connections);

/// Sets how many bytes the system may hold for the socket with this descriptor. The system may allow fewer.
void set_send_buffer(int descriptor, int bytes);

}  // namespace convoy::wire
