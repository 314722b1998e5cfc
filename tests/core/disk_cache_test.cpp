// Tests the cache of facts on disk, also when several threads fill it at the same time.

#include "core/disk_cache.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/process.hpp"

namespace convoy {
namespace {

class Cache : public testing::Test {
 protected:
  TemporaryFolder folder_;
  DiskCache cache_{folder_.path()};
};

TEST_F(Cache, KeepsTheLastThatIsRemembered) {
  EXPECT_EQ(cache_.recall("key"), std::nullopt);
  cache_.remember("key", "one");
  cache_.remember("key", "two");
  EXPECT_EQ(cache_.recall("key"), "two");
  EXPECT_EQ(cache_.recall("another"), std::nullopt);
}

TEST_F(Cache, SettlesOnTheFirst) {
  EXPECT_EQ(cache_.settle("key", "one"), "one");
  EXPECT_EQ(cache_.settle("key", "two"), "one");
  EXPECT_EQ(cache_.recall("key"), "one");
}

TEST_F(Cache, SettlesForAllWhoAskAtOnce) {
  std::vector<std::string> settled(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < settled.size(); ++i) {
    threads.emplace_back([this, &settled, i] { settled[i] = cache_.settle("key", std::to_string(i)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(settled.begin(), settled.end()), std::set<std::string>{*cache_.recall("key")});
}

TEST(DiskCacheWithoutAFolder, KeepsNothing) {
  const DiskCache nowhere{{}};
  nowhere.remember("key", "one");
  EXPECT_EQ(nowhere.recall("key"), std::nullopt);
  EXPECT_EQ(nowhere.settle("key", "two"), "two");
}

}  // namespace
}  // namespace convoy
