// Tests masters that broadcast their address and slaves that listen for it.

#include "wire/beacon.hpp"

#include <gmock/gmock.h>
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

/// What a slave that looks for a master of its key is told, until it is told something.
std::string told_of_none(const std::string& key) {
  std::atomic<bool> stop{false};
  std::string told;
  const auto report = [&](const std::string& why) {
    told = why;
    stop = true;
  };
  EXPECT_FALSE(find_master(key, stop, report, std::chrono::milliseconds(2500)));
  return told;
}

TEST(Beacons, ThatDoNotComeAreExplained) {
  const std::string ours = make_key_pair().public_key;
  const Beacon other("tcp://127.0.0.1:7003", make_key_pair().public_key);
  // Another test program of this machine may have beacons of its own.
  EXPECT_THAT(told_of_none(ours), testing::AllOf(testing::HasSubstr("a master broadcasts from tcp://"),
                                                 testing::HasSubstr("has another key"), testing::HasSubstr("--key")));
}

TEST(Beacons, AreNoLongerAwaitedAtTheEnd) {
  const std::atomic<bool> stop{true};
  EXPECT_FALSE(find_master(make_key_pair().public_key, stop));
}

}  // namespace
}  // namespace convoy::wire
