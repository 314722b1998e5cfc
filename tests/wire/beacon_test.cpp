// Tests the datagrams in which masters broadcast their address.

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

}  // namespace
}  // namespace convoy::wire
