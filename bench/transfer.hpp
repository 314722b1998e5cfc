// Timed transfers of data to a receiving process, through Convoy's wire or a bare socket.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/raw_socket.hpp"
#include "core/tensor.hpp"
#include "wire/tcp_link.hpp"

namespace convoy {

constexpr std::size_t kMostTransferBytes = std::size_t{1} << 30;
constexpr std::size_t kMostFrameBytes = std::size_t{8} << 20;  ///< Convoy's own frames have at most 1 MiB

/// Returns the shape of a tensor of `bytes` bytes, in maps of 16 KiB.
Shape transfer_shape(std::size_t bytes);

/// Receives the data of a TransferSender at `endpoint` until dismissed. It also receives on a bare socket where
/// `raw_port` is not 0, and encrypted where there is a `key`. Throws Error when the sender falls silent.
void receive_transfers(const std::string& endpoint, const std::string& raw_host, int raw_port,
                       const std::string& key = "");

/// The sending side. All times are from the first byte to the answer that all data lies in the receivers' memory. Every
/// wait ends with an Error, by default after a minute.
class TransferSender {
 public:
  explicit TransferSender(const std::string& endpoint, const std::optional<wire::MasterKeys>& keys = {})
      : link_(endpoint, {.max_message_bytes = kMostFrameBytes, .keys = keys}) {}

  std::string endpoint() const { return link_.endpoint(); }
  void wait_for_receivers(int count, std::chrono::seconds patience = std::chrono::seconds(60));
  /// Returns the seconds to move one tensor into a tensor of each receiver: divide, copy, send, assemble.
  double send_tensor(const Tensor& tensor);
  /// Returns the seconds to move tensors one after another, each as send_tensor() does.
  double send_tensors(const std::vector<Tensor>& tensors);
  /// Returns the seconds to move `count` frames of `bytes` each.
  double send_frames(std::size_t count, std::size_t bytes);
  /// Returns the seconds to move `count` pieces of `bytes` each over a bare socket.
  double send_raw(RawSocket& raw, std::size_t count, std::size_t bytes);
  void dismiss();

 private:
  double send_all(const std::vector<std::span<const float>>& values);
  void announce(const wire::Message& order);
  void send(const wire::Envelope& envelope);
  void await_done();

  wire::TcpServerLink link_;
  std::vector<std::string> peers_;
};

}  // namespace convoy
