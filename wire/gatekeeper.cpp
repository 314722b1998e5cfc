#include "wire/gatekeeper.hpp"

#include <array>
#include <vector>

namespace convoy::wire {
namespace {

constexpr const char* kDomain = "convoy";

}  // namespace

Gatekeeper::Gatekeeper(zmq::context_t& context, const std::string& admitted)
    : requests_(context, zmq::socket_type::rep), admitted_(32, '\0') {
  zmq_z85_decode(reinterpret_cast<std::uint8_t*>(admitted_.data()), admitted.c_str());
  requests_.set(zmq::sockopt::rcvtimeo, 50);  // lets the thread check stop_
  requests_.set(zmq::sockopt::linger, 0);
  requests_.bind("inproc://zeromq.zap.01");
  thread_ = std::thread([this] {
    while (!stop_) answer();
  });
}

Gatekeeper::~Gatekeeper() {
  stop_ = true;
  thread_.join();
}

/// The frames of a request are: version, number, domain, address, identity, mechanism, credentials.
void Gatekeeper::answer() {
  std::vector<zmq::message_t> request;
  do {
    zmq::message_t frame;
    if (!requests_.recv(frame)) return;
    request.push_back(std::move(frame));
  } while (request.back().more());
  const bool known = request.size() == 7 && request[5].to_string_view() == "CURVE" &&
                     request[6].to_string_view() == std::string_view(admitted_);
  const std::string number = request.size() > 1 ? request[1].to_string() : "";
  const std::array<std::string, 6> reply{"1.0", number, known ? "200" : "400", known ? "OK" : "not admitted", "", ""};
  for (std::size_t i = 0; i < reply.size(); ++i) {
    requests_.send(zmq::buffer(reply[i]), i + 1 < reply.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

void encrypt_as_server(zmq::socket_t& socket, const std::string& secret_key) {
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, secret_key);
  socket.set(zmq::sockopt::zap_domain, kDomain);
}

void encrypt_as_client(zmq::socket_t& socket, const std::string& server, const KeyPair& own) {
  socket.set(zmq::sockopt::curve_serverkey, server);
  socket.set(zmq::sockopt::curve_publickey, own.public_key);
  socket.set(zmq::sockopt::curve_secretkey, own.secret_key);
}

}  // namespace convoy::wire
