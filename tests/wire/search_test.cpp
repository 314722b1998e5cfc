// How slaves find the master of their key by its calls, though others call with the same key from false addresses.

#include "wire/search.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <set>
#include <thread>

#include "tests/support/false_caller.hpp"
#include "wire/tcp_link.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

// ---- the order of attempts -----------------------------------------------------------------------------------------

/// Times of a test, in milliseconds.
Candidates::Time ms(int time) { return Candidates::Time() + 1h + std::chrono::milliseconds(time); }

std::string false_address(int number) { return "tcp://10.0.0.1:" + std::to_string(number); }

TEST(Candidates, AreTriedOnceAtATimeAndOnlyWhileTheyCall) {
  Candidates candidates;
  EXPECT_FALSE(candidates.next(ms(0)));
  candidates.hear("a", ms(0));
  EXPECT_EQ(candidates.next(ms(0)), "a");
  candidates.hear("a", ms(100));
  EXPECT_FALSE(candidates.next(ms(100))) << "it is being tried";
  candidates.hear("b", ms(200));
  EXPECT_FALSE(candidates.next(ms(5000))) << "it calls no more";
}

TEST(Candidates, ThatFailArePutOffForLongerAndLonger) {
  Candidates candidates;
  int tried = 0;
  std::vector<int> waits;
  for (int time = 0; time < 400'000; time += 500) {
    candidates.hear("a", ms(time));
    if (!candidates.next(ms(time))) continue;
    candidates.failed("a", ms(time));
    waits.push_back(time - tried);
    tried = time;
  }
  ASSERT_GE(waits.size(), 8U);
  waits.resize(8);
  EXPECT_THAT(waits, testing::ElementsAre(0, 2000, 4000, 8000, 16000, 32000, 60000, 60000));
}

TEST(Candidates, TriedLongestAgoComeFirst) {
  Candidates candidates;
  std::vector<std::string> order;
  for (int time = 0; time < 30'000; time += 500) {
    for (const std::string address : {"a", "b", "c"}) candidates.hear(address, ms(time));
    if (time % 5000 != 1000) continue;
    const auto next = candidates.next(ms(time));
    ASSERT_TRUE(next);
    order.push_back(*next);
    candidates.failed(*next, ms(time));
  }
  EXPECT_EQ(std::set(order.begin(), order.begin() + 3), (std::set<std::string>{"a", "b", "c"}));
  EXPECT_EQ(std::vector(order.begin(), order.begin() + 3), std::vector(order.begin() + 3, order.end()));
}

/// Every false call comes from a new address, so that none of them was ever tried.
TEST(Candidates, ThatCallSteadilyComeBeforeOthers) {
  Candidates candidates;
  int number = 0;
  for (int time = 0; time < 3000; time += 10) {
    candidates.hear(false_address(number++), ms(time));
    if (time % 1000 == 500) candidates.hear("true", ms(time));
  }
  EXPECT_EQ(candidates.next(ms(3000)), "true");
  candidates.failed("true", ms(3000));
  EXPECT_NE(candidates.next(ms(3000)), "true");
  for (int time = 3000; time < 6000; time += 10) {
    candidates.hear(false_address(number++), ms(time));
    if (time % 1000 == 500) candidates.hear("true", ms(time));
  }
  EXPECT_EQ(candidates.next(ms(6000)), "true") << "never-tried addresses keep coming, but do not call steadily";
}

TEST(Candidates, WhereTheMasterWasFoundComeFirst) {
  Candidates candidates;
  for (const std::string address : {"a", "b", "c"}) candidates.hear(address, ms(0));
  candidates.found("c");
  EXPECT_EQ(candidates.next(ms(0)), "c");
  candidates.failed("c", ms(0));
  for (int time = 0; time <= 5000; time += 500) {
    for (const std::string address : {"a", "b", "c"}) candidates.hear(address, ms(time));
  }
  EXPECT_NE(candidates.next(ms(5000)), "c") << "it is not there any more";
}

TEST(Candidates, TakeBoundedMemory) {
  Candidates candidates;
  candidates.hear("tried", ms(0));
  EXPECT_EQ(candidates.next(ms(0)), "tried");
  for (int number = 0; number < 20'000; ++number) {
    candidates.hear(false_address(number), ms(number / 20));
    if (number % 100 == 0) candidates.hear("true", ms(number / 20));
    ASSERT_LE(candidates.size(), Candidates::kMostKnown);
  }
  candidates.failed("tried", ms(1000));  // was not forgotten while it was tried
  EXPECT_EQ(candidates.next(ms(1000)), "true");
}

// ---- searching -----------------------------------------------------------------------------------------------------

const std::atomic<bool> kNever{false};

/// A master with keys that calls.
struct CallingMaster {
  MasterKeys keys{make_key_pair(), make_key_pair()};
  TcpServerLink link{"tcp://127.0.0.1:*", {.keys = keys}};
  Beacon beacon{link.endpoint(), keys.master.public_key};
};

TEST(Search, LeadsToTheMasterOfTheKey) {
  CallingMaster master;
  const CallingMaster other;
  const Beacon from_everywhere("tcp://0.0.0.0:7001", make_key_pair().public_key);
  MasterSearch search(master.keys.join_key());
  EXPECT_EQ(search.find(kNever), master.link.endpoint());
  EXPECT_THAT(master.link.take_refusals(), testing::IsEmpty()) << "the search does not alarm the master's user";
}

TEST(Search, TakesNoMachineWithoutTheMastersSecretKey) {
  CallingMaster master;
  const CallingMaster other;
  // It sends the call of the first master, and lets in everybody who knows its public key.
  const Beacon impostor(other.link.endpoint(), master.keys.master.public_key);
  for (int i = 0; i < 3; ++i) {
    MasterSearch search(master.keys.join_key());
    EXPECT_EQ(search.find(kNever), master.link.endpoint());
  }
}

/// The calls come from many addresses: at half of them nobody listens, the others accept connections and are silent.
TEST(Search, FindsTheMasterAmongManyFalseCalls) {
  const CallingMaster master;
  const FalseCaller caller(master.keys.master.public_key);
  std::vector<std::string> told;
  const auto report = [&](const std::string& why) { told.push_back(why); };
  MasterSearch search(master.keys.join_key());
  EXPECT_EQ(search.find(kNever, report), master.link.endpoint());
  EXPECT_EQ(search.find(kNever, report), master.link.endpoint()) << "again, after a run";
}

/// What a slave is told that looks for a master of its key, until the given time is over.
std::vector<std::string> told_within(const MasterKeys& keys, std::chrono::seconds time) {
  std::atomic<bool> stop{false};
  std::vector<std::string> told;
  MasterSearch search(keys.join_key(), 2500ms);
  std::thread watch([&] {
    std::this_thread::sleep_for(time);
    stop = true;
  });
  EXPECT_FALSE(search.find(stop, [&](const std::string& why) { told.push_back(why); }));
  watch.join();
  return told;
}

TEST(Search, SaysOnceThatCallsAreFalse) {
  const MasterKeys keys{make_key_pair(), make_key_pair()};
  const FalseCaller caller(keys.master.public_key);
  EXPECT_THAT(told_within(keys, 6s), testing::Contains(AllOf(HasSubstr("from addresses where no such master answers"),
                                                             HasSubstr("tcp://127.")))
                                         .Times(1));
}

TEST(Search, SaysOnceThatNobodyCalls) {
  const auto told = told_within({make_key_pair(), make_key_pair()}, 6s);
  const auto has_another_key = [](const std::string& why) { return why.find("has another key") != std::string::npos; };
  if (std::ranges::any_of(told, has_another_key)) GTEST_SKIP() << "another program of this machine has a beacon";
  EXPECT_THAT(told, testing::ElementsAre(AllOf(HasSubstr("no master broadcasts on this network"),
                                               HasSubstr("CONVOY_KEY=KEY convoy-slave tcp://HOST:PORT"))));
}

TEST(Search, SaysOnceThatAnotherMasterCalls) {
  const CallingMaster other;
  // Another test program of this machine may have beacons of its own.
  EXPECT_THAT(told_within({make_key_pair(), make_key_pair()}, 6s),
              testing::Contains(AllOf(HasSubstr("a master broadcasts from tcp://"), HasSubstr("has another key"),
                                      HasSubstr("CONVOY_KEY")))
                  .Times(1));
}

TEST(Search, SaysOnceThatTheMasterDoesNotAcceptTheKey) {
  const CallingMaster master;
  const auto told = told_within({master.keys.master, make_key_pair()}, 6s);
  EXPECT_THAT(told, testing::Contains(HasSubstr("the master does not accept the key of this slave")).Times(1));
  EXPECT_THAT(told, testing::Not(testing::Contains(HasSubstr("no such master answers"))));
}

TEST(Search, EndsWhenItIsStopped) {
  const std::atomic<bool> stop{true};
  MasterSearch search(MasterKeys{make_key_pair(), make_key_pair()}.join_key());
  EXPECT_FALSE(search.find(stop));
}

}  // namespace
}  // namespace convoy::wire
