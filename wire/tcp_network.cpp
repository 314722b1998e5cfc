#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

class TcpNetwork final : public Network {
 public:
  std::unique_ptr<ServerLink> listen(const std::string& endpoint, const LinkOptions& options) override {
    return std::make_unique<TcpServerLink>(endpoint, options);
  }
  std::unique_ptr<ClientLink> connect(const std::string& endpoint, const LinkOptions& options, int peer_port) override {
    return std::make_unique<TcpClientLink>(endpoint, options, peer_port);
  }
};

}  // namespace

Network& tcp_network() {
  static TcpNetwork network;
  return network;
}

}  // namespace convoy::wire
