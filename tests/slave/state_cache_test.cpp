#include "slave/state_cache.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/allocated.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using Values = std::vector<float>;

class StateCaches : public testing::Test {
 protected:
  static wire::Content content(const Values& values) { return wire::content_of({values}); }
  static Values values(float first) { return {first, first + 1, first + 2, first + 3}; }  // 16 bytes
  /// Whether the cache has the state, with the right values.
  static bool has(StateCache& cache, const Values& wanted) {
    Values first(1);
    Values rest(wanted.size() - 1);
    if (!cache.find(content(wanted), {first, rest})) return false;
    first.insert(first.end(), rest.begin(), rest.end());
    EXPECT_EQ(first, wanted);
    return true;
  }
  static void keep(StateCache& cache, const Values& values) { cache.keep(content(values), {values}); }
  static void store(StateCache& cache, const Values& values) { cache.store(content(values), {values}); }

  std::filesystem::path folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(StateCaches, KnowWhatTheyWereGiven) {
  StateCache cache("");
  EXPECT_FALSE(has(cache, values(1)));
  keep(cache, values(1));
  keep(cache, values(5));
  EXPECT_TRUE(has(cache, values(1)));
  EXPECT_TRUE(has(cache, values(5)));
  EXPECT_FALSE(has(cache, values(9)));
}

TEST_F(StateCaches, TakeTheMemoryOfTheirStates) {
  const Values half(100000, 1.0F);
  const std::size_t bytes = 2 * half.size() * sizeof(float);
  StateCache cache("");
  const double before = allocated();
  cache.keep(content(half), {half, half});
  const double taken = allocated() - before;
  if (taken <= 0.0) GTEST_SKIP() << "the allocator does not count bytes (under a sanitizer)";
  EXPECT_NEAR(taken, static_cast<double>(bytes), 0.01 * static_cast<double>(bytes));
}

TEST_F(StateCaches, LetTheLeastRecentlyUsedGo) {
  StateCache cache("", {.memory = 40});
  keep(cache, values(1));
  keep(cache, values(5));
  EXPECT_TRUE(has(cache, values(1)));
  keep(cache, values(9));
  EXPECT_TRUE(has(cache, values(1)));
  EXPECT_FALSE(has(cache, values(5)));
  keep(cache, Values(100));
  EXPECT_FALSE(has(cache, Values(100))) << "the state is larger than the limit";
}

TEST_F(StateCaches, TakeLessMemoryWhenTold) {
  StateCache cache("", {.memory = 40});
  keep(cache, values(1));
  keep(cache, values(5));
  cache.bound_memory(20);
  EXPECT_FALSE(has(cache, values(1)));
  EXPECT_TRUE(has(cache, values(5)));
  keep(cache, values(9));
  EXPECT_FALSE(has(cache, values(5)));
  cache.bound_memory(100);
  keep(cache, values(1));
  keep(cache, values(5));
  EXPECT_TRUE(has(cache, values(1)));
  EXPECT_TRUE(has(cache, values(5)));
  EXPECT_FALSE(has(cache, values(9))) << "the cache would exceed its memory limit";
}

TEST_F(StateCaches, FindInTheFolderWhatAnEarlierProgramStored) {
  {
    StateCache cache(folder() / "new");
    store(cache, values(1));
    keep(cache, values(5));
  }
  StateCache cache(folder() / "new");
  EXPECT_TRUE(has(cache, values(1)));
  EXPECT_FALSE(has(cache, values(5))) << "the state was kept in memory only";
}

TEST_F(StateCaches, TakeNothingThatIsNotWhatItIsCalled) {
  {
    StateCache cache(folder());
    store(cache, values(1));
    store(cache, values(5));
  }
  std::ofstream(folder() / to_text(content(values(1))), std::ios::binary) << "another sixteen.";
  std::ofstream(folder() / to_text(content(values(5))), std::ios::binary) << "short";
  StateCache cache(folder());
  EXPECT_FALSE(has(cache, values(1)));
  EXPECT_FALSE(has(cache, values(5)));
}

TEST_F(StateCaches, KeepTheFolderSmall) {
  const StateCache::Limits none_in_memory{.memory = 0, .disk = 40};
  StateCache cache(folder(), none_in_memory);
  store(cache, values(1));
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(folder() / to_text(content(values(1))), old);
  store(cache, values(5));
  EXPECT_TRUE(has(cache, values(1))) << "this is the latest use of the state";
  std::filesystem::last_write_time(folder() / to_text(content(values(5))), old);
  store(cache, values(9));
  EXPECT_TRUE(has(cache, values(1)));
  EXPECT_FALSE(has(cache, values(5)));
  EXPECT_TRUE(has(cache, values(9)));
}

TEST_F(StateCaches, DoWithoutAFolderThatCannotBe) {
  const std::filesystem::path file = folder() / "file";
  std::ofstream(file) << "no folder";
  StateCache cache(file / "in-it");
  store(cache, values(1));
  EXPECT_TRUE(has(cache, values(1))) << "the state is still in memory";
}

}  // namespace
}  // namespace convoy
