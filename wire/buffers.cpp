#include "wire/buffers.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace convoy::wire {
namespace {

constexpr int kOfAll = 128 * 1024;
constexpr int kLeast = 16 * 1024;

}  // namespace

int share_of_card(int connections, int segment) {
  constexpr int kSegments = 4;
  return std::max({kLeast, kOfAll / connections, kSegments * segment});
}

int segment_of(int descriptor) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  return getsockopt(descriptor, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size) == 0 ? bytes : 0;
}

void set_send_buffer(int descriptor, int bytes) {
  // An error leaves the buffer as it is, which costs speed alone.
  setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

}  // namespace convoy::wire
