#include "wire/buffers.hpp"

#include <sys/socket.h>

#include <algorithm>

namespace convoy::wire {
namespace {

constexpr int kOfAll = 128 * 1024;
constexpr int kLeast = 16 * 1024;

}  // namespace

int share_of_card(int connections) { return std::max(kLeast, kOfAll / connections); }

void set_send_buffer(int descriptor, int bytes) {
  // An error leaves the buffer as it is, which costs speed alone.
  setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

}  // namespace convoy::wire
