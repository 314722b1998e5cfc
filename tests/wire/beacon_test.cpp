// Tests masters that broadcast their address and slaves that listen for it.

#include "wire/beacon.hpp"

#include <gtest/gtest.h>

#include "wire/keys.hpp"

namespace convoy::wire {
namespace {

TEST(Calls, AreReadAsWritten) {
  const Call call{5570, make_key_pair().public_key};
  const auto read = call_from(to_text(call));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->port, call.port);
  EXPECT_EQ(read->key, call.key);
}

TEST(Calls, OfOthersAreNone) {
  const std::string key = make_key_pair().public_key;
  for (const std::string& wrong :
       {std::string(), std::string("convoy"), std::string("convoy 1 "), "convoy 2 5570 " + key, "convoy 1 0 " + key,
        "convoy 1 65536 " + key, "convoy 1 -1 " + key, "convoy 1 99999999999 " + key, "convoy 1 5570" + key,
        std::string("convoy 1 5570 abc"), "convoy 1 5570 " + key + "x", std::string(512, '\0')}) {
    EXPECT_FALSE(call_from(wrong)) << wrong;
  }
}

/// find_master returns the master with the given key, although other masters broadcast too.
TEST(Beacons, LeadToTheMasterOfTheKey) {
  const std::string ours = make_key_pair().public_key;
  const Beacon other("tcp://127.0.0.1:7001", make_key_pair().public_key);
  const Beacon beacon("tcp://127.0.0.1:7002", ours);
  const Beacon from_everywhere("tcp://0.0.0.0:7001", make_key_pair().public_key);
  const std::atomic<bool> never{false};
  EXPECT_EQ(find_master(ours, never), "tcp://127.0.0.1:7002");
}

TEST(Beacons, AreNoLongerAwaitedAtTheEnd) {
  const std::atomic<bool> stop{true};
  EXPECT_FALSE(find_master(make_key_pair().public_key, stop));
}

}  // namespace
}  // namespace convoy::wire
