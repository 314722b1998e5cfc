#include "wire/gatekeeper.hpp"

#include <array>
#include <utility>

#include "wire/endpoint.hpp"

namespace convoy::wire {
namespace {

constexpr const char* kDomain = "convoy";
constexpr std::size_t kMostAddresses = 64;
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kKeyText = 40;

}  // namespace

Gatekeeper::Gatekeeper(zmq::context_t& context, Admission admission)
    : requests_(context, zmq::socket_type::rep), admission_(std::move(admission)) {
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
  std::string public_key;
  const bool known = decide(request, public_key).empty();
  const std::string number = request.size() > 1 ? request[1].to_string() : "";
  const std::array<std::string, 6> reply{
      "1.0", number, known ? "200" : "400", known ? "OK" : "not admitted", known ? public_key : "", ""};
  for (std::size_t i = 0; i < reply.size(); ++i) {
    requests_.send(zmq::buffer(reply[i]), i + 1 < reply.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

std::string Gatekeeper::decide(const std::vector<zmq::message_t>& request, std::string& public_key) {
  if (request.size() != 7 || request[5].to_string_view() != "CURVE" || request[6].size() != kKeyBytes) {
    return "it showed no key";
  }
  std::array<char, kKeyText + 1> text{};
  zmq_z85_encode(text.data(), request[6].data<std::uint8_t>(), kKeyBytes);
  public_key = text.data();
  std::string why = admission_(public_key);
  if (!why.empty()) {
    const std::scoped_lock lock(mutex_);
    if (refusals_.size() < kMostAddresses) refusals_.push_back({plain_ip(request[3].to_string()), why});
  }
  return why;
}

std::string Gatekeeper::sender(const zmq::message_t& header) const {
  // ZeroMQ keeps the user id that answer() gave a connection, and attaches it to each of its messages.
  const char* known = zmq_msg_gets(header.handle(), "User-Id");
  const std::string public_key = known == nullptr ? "" : known;
  return !public_key.empty() && admission_(public_key).empty() ? public_key : "";
}

std::vector<Refusal> Gatekeeper::take_refusals() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(refusals_, {});
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
