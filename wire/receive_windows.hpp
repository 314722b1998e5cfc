// How many bytes each connection of a listening socket may have on its way here. The header includes zmq.hpp, so only
// the sources of wire/ may include it.
#pragma once

#include <set>
#include <string>
#include <zmq.hpp>

namespace convoy::wire {

/// TCP fills the queue of a switch before this machine's card, and gives the connections unequal parts of the link: the
/// queue delays small values that a computation waits for, and a slow connection delays all nodes. A limit at the
/// sender does not help, because Linux puts up to 64 KiB of a connection on the way at once. So the receiver gives all
/// connections equal windows: few bytes are on the way, none are dropped, and all senders are equally fast. The object
/// must be destroyed before the socket.
class ReceiveWindows {
 public:
  /// `name` must differ between the sockets of the context. The socket need not listen yet.
  ReceiveWindows(zmq::context_t& context, zmq::socket_t& listening, const std::string& name);
  ~ReceiveWindows();
  ReceiveWindows(const ReceiveWindows&) = delete;
  ReceiveWindows& operator=(const ReceiveWindows&) = delete;

  /// From now on `senders` machines send here at the same time, each through one connection or two. With 0 the system
  /// chooses the windows.
  void share(int senders);
  /// Limits connections that were accepted since the last call.
  void watch();

 private:
  void limit(int descriptor) const;

  zmq::socket_t& listening_;
  zmq::socket_t events_;
  std::set<int> connections_;  ///< descriptors
  int senders_ = 0;
};

}  // namespace convoy::wire
