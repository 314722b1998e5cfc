// Tests the cache of facts about a device on disk, also when several threads fill it at the same time.

#include "cl/cache.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/process.hpp"

namespace convoy {
namespace {

class Cache : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* home = std::getenv("XDG_CACHE_HOME")) before_ = home;
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    if (before_) {
      setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    } else {
      unsetenv("XDG_CACHE_HOME");
    }
  }
  TemporaryFolder folder_;
  std::optional<std::string> before_;
};

TEST_F(Cache, KeepsTheLastThatIsRemembered) {
  EXPECT_EQ(recall("key"), std::nullopt);
  remember("key", "one");
  remember("key", "two");
  EXPECT_EQ(recall("key"), "two");
  EXPECT_EQ(recall("another"), std::nullopt);
}

TEST_F(Cache, SettlesOnTheFirst) {
  EXPECT_EQ(settle("key", "one"), "one");
  EXPECT_EQ(settle("key", "two"), "one");
  EXPECT_EQ(recall("key"), "one");
}

TEST_F(Cache, SettlesForAllWhoAskAtOnce) {
  std::vector<std::string> settled(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < settled.size(); ++i) {
    threads.emplace_back([&settled, i] { settled[i] = settle("key", std::to_string(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(settled.begin(), settled.end()), std::set<std::string>{*recall("key")});
}

}  // namespace
}  // namespace convoy
