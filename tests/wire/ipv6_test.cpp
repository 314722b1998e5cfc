// Links over IPv6, beside IPv4, and on machines that have only one of them.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tests/wire/fake_network.hpp"
#include "tests/wire/peers.hpp"
#include "wire/endpoint.hpp"
#include "wire/interfaces.hpp"
#include "wire/tcp_link.hpp"
#include "wire/trouble.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

bool has_ipv6() { return std::ranges::count(own_addresses(), "::1") > 0; }

#define SKIP_WITHOUT_IPV6() \
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6: no interface has the address ::1"

int port_of(const std::string& endpoint) { return std::stoi(endpoint.substr(endpoint.rfind(':') + 1)); }

std::string at(const std::string& host, const std::string& endpoint) {
  return "tcp://" + to_text({host, port_of(endpoint)});
}

/// The address at which the server sees the client, which says Hello over its control connection and Attach over its
/// data connection; empty if not both arrive.
std::string seen_from(ServerLink& server, ClientLink& client) {
  const auto until = in(20s);
  std::string address;
  bool said = false;
  bool attached = false;
  while (Clock::now() < until && !(attached && !address.empty())) {
    if (client.connected() && !std::exchange(said, true)) {
      client.send(Channel::control, {Hello{.name = "a"}, {}}, in(1s));
      client.send(Channel::data, {Attach{"a"}, {}}, in(1s));
    }
    client.receive(in(10ms));
    const auto from = server.receive(in(10ms));
    if (!from) continue;
    if (from->channel == Channel::control) address = from->address;
    attached = attached || from->channel == Channel::data;
  }
  return attached ? address : "";
}

std::string seen_through(ServerLink& server, const std::string& endpoint) {
  TcpClientLink client(endpoint);
  return seen_from(server, client);
}

TEST(IPv6, ConnectsMasterAndSlave) {
  SKIP_WITHOUT_IPV6();
  TcpServerLink server("tcp://[::1]:*");
  EXPECT_THAT(server.endpoint(), testing::StartsWith("tcp://[::1]:"));
  EXPECT_EQ(seen_through(server, server.endpoint()), "::1");
}

/// Over every address of this machine, also those of single links, and encrypted as users have it.
TEST(IPv6, AndIPv4ReachAMasterThatListensEverywhere) {
  SKIP_WITHOUT_IPV6();
  const MasterKeys keys{make_key_pair(), make_key_pair()};
  TcpServerLink server("tcp://*:*", {.keys = keys});
  for (const std::string& own : own_addresses()) {
    TcpClientLink client(at(own, server.endpoint()), {.join_key = keys.join_key()});
    EXPECT_EQ(seen_from(server, client), own);
  }
}

TEST(IPv6, AndIPv4ReachASlaveFromOthers) {
  SKIP_WITHOUT_IPV6();
  TcpServerLink server("tcp://*:*");
  TcpClientLink listener(at("::1", server.endpoint()));
  for (const std::string& own : own_addresses()) {
    TcpClientLink other(at(own, server.endpoint()));
    other.meet("token", 0, {{1, "listener", endpoint_for_peers(own, listener.peer_port())}});
    EXPECT_THAT(other.unreached(in(20s)), testing::IsEmpty()) << own;
  }
}

TEST(IPv6, IsNotNeeded) {
  const WithoutIPv6 machine;
  TcpServerLink server("tcp://*:*");
  EXPECT_THAT(server.endpoint(), testing::StartsWith("tcp://0.0.0.0:"));
  TcpClientLink client(at("127.0.0.1", server.endpoint()));
  EXPECT_EQ(seen_from(server, client), "127.0.0.1");
  client.meet("token", 0, {{1, "itself", fmt::format("127.0.0.1:{}", client.peer_port())}});
  EXPECT_THAT(client.unreached(in(20s)), testing::IsEmpty());
  EXPECT_THAT([] { TcpServerLink link("tcp://[::1]:*"); },
              testing::ThrowsMessage<Error>(HasSubstr("is not an address of this machine")));
  EXPECT_THAT(why_unconnected({"::1", 5570}), HasSubstr("no route to ::1"));
}

TEST(IPv6, AddressesOfNamesAreUsed) {
  SKIP_WITHOUT_IPV6();
  const Names names(Names::Addresses{
      {"six.example", {"::1"}}, {"both.example", {"::1", "127.0.0.1"}}, {"four.example", {"127.0.0.1"}}});
  TcpServerLink six("tcp://six.example:*");
  EXPECT_THAT(six.endpoint(), testing::StartsWith("tcp://[::1]:"));
  EXPECT_EQ(seen_through(six, at("six.example", six.endpoint())), "::1");
  EXPECT_EQ(seen_through(six, at("both.example", six.endpoint())), "::1") << "nobody listens at the IPv4 address";
  TcpServerLink four("tcp://both.example:*");
  EXPECT_THAT(four.endpoint(), testing::StartsWith("tcp://127.0.0.1:")) << "IPv4 comes first";
  EXPECT_EQ(seen_through(four, at("both.example", four.endpoint())), "127.0.0.1");
  EXPECT_EQ(seen_through(four, at("four.example", four.endpoint())), "127.0.0.1");
}

TEST(IPv6, OfAMachineWithoutAMasterIsExplained) {
  SKIP_WITHOUT_IPV6();
  const Names names(Names::Addresses{{"six.example", {"::1"}}});
  int port = 0;
  {
    const TcpServerLink gone("tcp://[::1]:*");
    port = port_of(gone.endpoint());
  }
  EXPECT_THAT(why_unconnected({"::1", port}), HasSubstr("::1 refuses connections"));
  EXPECT_THAT(why_unconnected({"six.example", port}), HasSubstr("six.example refuses connections"));
  EXPECT_THAT(why_unconnected({"fe80::1%nosuch", port}), HasSubstr("no network interface nosuch"));
  const TcpServerLink here("tcp://[::1]:*");
  EXPECT_EQ(why_unconnected({"six.example", port_of(here.endpoint())}), "");
}

TEST(IPv6, OfAStrangerIsReported) {
  SKIP_WITHOUT_IPV6();
  TcpServerLink server("tcp://*:*", {.keys = MasterKeys{make_key_pair(), make_key_pair()}});
  for (const std::string host : {"::1", "127.0.0.1"}) {
    std::vector<Refusal> refusals;
    const auto until = in(20s);
    const auto of_host = [&](const Refusal& each) { return each.address == host; };
    while (std::ranges::none_of(refusals, of_host) && Clock::now() < until) {
      // On a busy machine the client may be gone before the master asks for its address.
      TcpClientLink stranger(at(host, server.endpoint()),
                             {.join_key = JoinKey{make_key_pair().public_key, make_key_pair()}});
      while (!stranger.turned_away() && Clock::now() < until) stranger.receive(in(20ms));
      for (const Refusal& each : server.take_refusals()) refusals.push_back(each);
    }
    EXPECT_TRUE(std::ranges::any_of(refusals, of_host)) << host;
    for (const Refusal& each : refusals) EXPECT_THAT(each.address, Not(testing::StartsWith("::ffff:")));
  }
}

}  // namespace
}  // namespace convoy::wire
