// Tests of the addresses that users write, and of the texts about connections that fail.

#include "wire/endpoint.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "wire/interfaces.hpp"
#include "wire/tcp_link.hpp"
#include "wire/trouble.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Addresses, OfMastersHaveAHostAndAPort) {
  const Address address = address_of_master("tcp://pc-7.home_net:5570");
  EXPECT_EQ(address.host, "pc-7.home_net");
  EXPECT_EQ(address.port, 5570);
  const std::vector<std::pair<std::string, std::string>> refused{{"192.168.0.10:5570", "begin with tcp://"},
                                                                 {"tcp://192.168.0.10", "has no port"},
                                                                 {"tcp://host:99999", "not a number from 1 to 65535"},
                                                                 {"tcp://host:0", "from 1 to 65535"},
                                                                 {"tcp://host:*", "from 1 to 65535"},
                                                                 {"tcp://host:-1", "from 1 to 65535"},
                                                                 {"tcp://host:5570x", "from 1 to 65535"},
                                                                 {"tcp://*:5570", "has no host"},
                                                                 {"tcp://:5570", "no valid host"},
                                                                 {"tcp://a b:5570", "no valid host"},
                                                                 {"tcp://[::1]", "has no port"},
                                                                 {"tcp://[::1", "has no port"},
                                                                 {"tcp://[::1]:0", "from 1 to 65535"},
                                                                 {"tcp://::1:5570", "stands in brackets"},
                                                                 {"tcp://fd00::7", "stands in brackets"},
                                                                 {"tcp://[192.168.0.10]:5570", "no IPv6 address"},
                                                                 {"tcp://[::1::2]:5570", "no IPv6 address"},
                                                                 {"tcp://[]:5570", "no IPv6 address"},
                                                                 {"tcp://[*]:5570", "no IPv6 address"},
                                                                 {"tcp://[fe80::1%]:5570", "no IPv6 address"},
                                                                 {"tcp://[fe80::1%a;b]:5570", "no IPv6 address"},
                                                                 {"tcp://[fe80::1]:5570", "[fe80::10%eth0]:5570"}};
  for (const auto& each : refused) {
    EXPECT_THAT([&] { address_of_master(each.first); },
                ThrowsMessage<Error>(AllOf(HasSubstr(each.first), HasSubstr(each.second))));
  }
}

TEST(Addresses, OfIPv6StandInBrackets) {
  const std::vector<std::pair<std::string, std::string>> hosts{{"tcp://[::1]:5570", "::1"},
                                                               {"tcp://[2001:db8::7]:5570", "2001:db8::7"},
                                                               {"tcp://[fe80::1%eth0.7]:5570", "fe80::1%eth0.7"},
                                                               {"tcp://[::ffff:192.168.0.7]:5570", "192.168.0.7"}};
  for (const auto& [text, host] : hosts) {
    const Address address = address_of_master(text);
    EXPECT_EQ(address.host, host);
    EXPECT_EQ(address.port, 5570);
  }
  EXPECT_EQ(to_text(Address{"fe80::1%eth0", 7}), "[fe80::1%eth0]:7");
  EXPECT_EQ(to_text(Address{"192.168.0.7", 7}), "192.168.0.7:7");
  EXPECT_EQ(address_to_listen("tcp://[::]:*").host, "::");
  EXPECT_THAT([] { address_to_listen("tcp://[fe80::1%nosuch]:5570"); },
              ThrowsMessage<Error>(HasSubstr("no network interface nosuch")));
}

/// A transport of ZeroMQ that is not TCP is neither taken nor answered in the library's words.
TEST(Addresses, OfOtherTransportsAreRefused) {
  for (const std::string address : {"ipc:///tmp/convoy", "inproc://convoy", "udp://127.0.0.1:5570",
                                    "TCP://127.0.0.1:5570", "\x1b[2J://127.0.0.1:5570"}) {
    const auto refused = ThrowsMessage<Error>(AllOf(HasSubstr("Convoy connects machines over TCP only"),
                                                    testing::Not(HasSubstr("\x1b")), HasSubstr("tcp://")));
    EXPECT_THAT([&] { address_of_master(address); }, refused);
    EXPECT_THAT([&] { TcpClientLink link(address); }, refused);
    EXPECT_THAT([&] { TcpServerLink link(address); }, refused);
  }
}

TEST(Addresses, OfSlavesAreWhatOtherSlavesCanUse) {
  EXPECT_EQ(endpoint_for_peers("192.168.0.7", 5571), "192.168.0.7:5571");
  EXPECT_EQ(endpoint_for_peers("2001:db8::7", 5571), "[2001:db8::7]:5571");
  EXPECT_EQ(endpoint_for_peers("127.0.0.1", 5571), ":5571");
  EXPECT_EQ(endpoint_for_peers("::1", 5571), ":5571");
  EXPECT_EQ(endpoint_for_peers("fe80::7%eth0", 5571), "[fe80::7]:5571") << "eth0 is an interface of the master";
  EXPECT_EQ(plain_ip("::ffff:192.168.0.7"), "192.168.0.7");
  EXPECT_EQ(plain_ip("2001:db8::7"), "2001:db8::7");

  EXPECT_EQ(to_text(address_of_peer("192.168.0.7:5571", "pc-7")), "192.168.0.7:5571");
  EXPECT_EQ(to_text(address_of_peer("[2001:db8::7]:5571", "pc-7")), "[2001:db8::7]:5571");
  EXPECT_EQ(to_text(address_of_peer(":5571", "pc-7")), "pc-7:5571");
  EXPECT_EQ(to_text(address_of_peer(":5571", "fe80::1%wlan0")), "[fe80::1%wlan0]:5571");
  EXPECT_EQ(to_text(address_of_peer("[fe80::7]:5571", "fe80::1%wlan0")), "[fe80::7%wlan0]:5571");
  for (const std::string wrong :
       {"[fe80::7]:5571", "", ":", "[", "[]", "host", "host:0", "host:-5", "*:5571", "a;b:5571"}) {
    EXPECT_THROW(address_of_peer(wrong, "pc-7"), Error) << wrong;
  }
}

TEST(Addresses, ForSlavesAreThoseThatOthersReach) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(best_for_others({"127.0.0.1", "::1", "2001:db8::7", "192.168.0.7"}, true), "192.168.0.7");
  EXPECT_EQ(best_for_others({"127.0.0.1", "::1", "fe80::7%eth0", "fd00::7", "2001:db8::7"}, true), "2001:db8::7");
  EXPECT_EQ(best_for_others({"127.0.0.1", "fe80::7%eth0", "fd00::7"}, true), "fd00::7");
  EXPECT_EQ(best_for_others({"127.0.0.1", "fe80::7%eth0", "169.254.0.7"}, true), "169.254.0.7");
  EXPECT_EQ(best_for_others({"::1", "fe80::7%eth0"}, true), "fe80::7%eth0");
  EXPECT_EQ(best_for_others({"127.0.0.1", "2001:db8::7"}, false), "127.0.0.1");
  EXPECT_EQ(best_for_others(Texts{}, true), "127.0.0.1");
  EXPECT_EQ(endpoint_for_slaves("tcp://[2001:db8::7]:5570"), "tcp://[2001:db8::7]:5570");
  const std::string here = endpoint_for_slaves("tcp://[::]:5570");
  EXPECT_EQ(here, "tcp://" + to_text({best_for_others(own_addresses(), true), 5570}));
  EXPECT_NO_THROW(address_of_master(here)) << here;
}

TEST(Addresses, ToListenAtAreOfThisMachine) {
  EXPECT_EQ(address_to_listen("tcp://*:5570").port, 5570);
  EXPECT_EQ(address_to_listen("tcp://127.0.0.1:*").port, 0);
  EXPECT_EQ(address_to_listen("tcp://localhost:0").port, 0);
  EXPECT_EQ(address_to_listen("tcp://lo:7").port, 7);
  EXPECT_NO_THROW(TcpServerLink("tcp://localhost:*")) << "a name of this machine";
  EXPECT_THAT([] { address_to_listen("tcp://*:99999"); }, ThrowsMessage<Error>(HasSubstr("from 0 to 65535")));
  EXPECT_THAT([] { address_to_listen("tcp://nosuch.invalid:5570"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("--listen"), HasSubstr("does not resolve"))));
  EXPECT_THAT([] { TcpServerLink("tcp://198.51.100.7:5570"); },
              ThrowsMessage<Error>(HasSubstr("198.51.100.7 is not an address of this machine")));
}

TEST(Addresses, InUseAreRefusedWithTheReason) {
  const TcpServerLink first("tcp://127.0.0.1:*");
  EXPECT_THAT([&] { TcpServerLink second(first.endpoint()); },
              ThrowsMessage<Error>(AllOf(HasSubstr(first.endpoint()), HasSubstr("another program"))));
}

/// A TCP port of 127.0.0.1 that is taken, with or without somebody who listens.
class Port {
 public:
  explicit Port(bool listens) : handle_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_TRUE(bind(handle_, plain, size) == 0 && getsockname(handle_, plain, &size) == 0);
    EXPECT_TRUE(!listens || listen(handle_, 4) == 0);
    number_ = ntohs(address.sin_port);
  }
  ~Port() { close(handle_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  int number() const { return number_; }

 private:
  int handle_;
  int number_ = 0;
};

TEST(Troubles, OfAConnectionAreNamed) {
  const Port silent(true);
  const Port closed(false);
  EXPECT_EQ(why_unconnected({"127.0.0.1", silent.number()}), "");
  EXPECT_THAT(why_unconnected({"127.0.0.1", closed.number()}), HasSubstr("no master listens there now"));
  EXPECT_THAT(why_unconnected({"nosuch.invalid", 5570}), HasSubstr("the name nosuch.invalid does not resolve"));
}

/// What a link says that cannot connect.
std::string trouble_of(ClientLink& link, std::chrono::seconds patience) {
  const auto until = Clock::now() + patience;
  std::string trouble;
  while (trouble.empty() && Clock::now() < until) {
    link.receive(Clock::now() + 50ms);
    trouble = link.trouble();
  }
  return trouble;
}

TEST(Troubles, OfALinkAreKnownWithinSeconds) {
  const Port closed(false);
  TcpClientLink refused(fmt::format("tcp://127.0.0.1:{}", closed.number()));
  EXPECT_THAT(trouble_of(refused, 15s), HasSubstr("no master listens there now"));
  TcpClientLink unresolved("tcp://nosuch.invalid:5570");
  EXPECT_THAT(trouble_of(unresolved, 15s), HasSubstr("nosuch.invalid"));
  const Port silent(true);
  TcpClientLink unanswered(fmt::format("tcp://127.0.0.1:{}", silent.number()));
  EXPECT_THAT(trouble_of(unanswered, 15s), HasSubstr("does not answer like a master"));
}

TEST(Troubles, OfKeysAreTold) {
  const MasterKeys keys{make_key_pair(), make_key_pair()};
  const TcpServerLink server("tcp://127.0.0.1:*", {.keys = keys});
  TcpClientLink stranger(server.endpoint(), {.join_key = JoinKey{keys.master.public_key, make_key_pair()}});
  EXPECT_THAT(trouble_of(stranger, 15s), AllOf(HasSubstr("CONVOY_KEY"), HasSubstr("the master")));
  TcpClientLink misled(server.endpoint(), {.join_key = JoinKey{make_key_pair().public_key, keys.member}});
  EXPECT_THAT(trouble_of(misled, 15s), HasSubstr("CONVOY_KEY"));
  TcpClientLink open(server.endpoint());
  EXPECT_THAT(trouble_of(open, 15s), HasSubstr("--insecure"));
}

TEST(Troubles, EndWhenTheMasterComes) {
  std::string endpoint;
  {
    const Port closed(false);
    endpoint = fmt::format("tcp://127.0.0.1:{}", closed.number());
  }
  TcpClientLink link(endpoint);
  EXPECT_THAT(trouble_of(link, 15s), HasSubstr("no master listens there now"));
  const TcpServerLink master(endpoint);
  const auto until = Clock::now() + 15s;
  while (!link.connected() && Clock::now() < until) link.receive(Clock::now() + 50ms);
  EXPECT_TRUE(link.connected());
  EXPECT_EQ(link.trouble(), "");
}

}  // namespace
}  // namespace convoy::wire
