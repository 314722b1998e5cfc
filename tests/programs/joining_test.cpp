// How slaves join a master: what both print while one of them waits for the other, and the keys.

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/programs/programs.hpp"
#include "tests/support/false_caller.hpp"
#include "wire/interfaces.hpp"
#include "wire/keys.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

/// As users run them: with keys that the master makes.
TEST_F(Programs, SlavesJoinByTheKeyThatTheMasterPrints) {
  const std::string keys = folder("config/keys.json");
  std::vector<std::string> arguments = training(folder("run"), {"--slaves", "2", "--steps", "30", "--keys", keys});
  std::erase(arguments, "--insecure");
  std::ranges::replace(arguments, std::string("star"), std::string("ring"));
  Process train = master(arguments);
  ASSERT_TRUE(train.wait_for("CONVOY_KEY=", 20s)) << train.output();
  const std::string printed = train.output().substr(train.output().find("CONVOY_KEY=") + 11, 128);
  ASSERT_TRUE(train.wait_for(printed + " convoy-slave " + endpoint_ + "\n", 20s)) << train.output();
  Process ask = master({"key", "--keys", keys});
  ASSERT_EQ(ask.wait(10s), kSuccess);
  EXPECT_THAT(ask.output(), HasSubstr(printed));
  EXPECT_EQ(std::filesystem::status(keys).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);

  Process stranger({kSlave, endpoint_, "--insecure", "--name", "stranger"});
  EXPECT_TRUE(stranger.wait_for("start this slave with the CONVOY_KEY that the master prints now", 20s))
      << stranger.output();
  Process a({kSlave, endpoint_, "--key", printed, "--name", "a", "--threads", "1"});
  Process b({"/usr/bin/env", "CONVOY_KEY=" + printed, kSlave, "--name", "b", "--threads", "1"});  // finds its master
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output() << a.output() << b.output();
  EXPECT_THAT(train.output(), testing::Not(HasSubstr("stranger")));
  EXPECT_THAT(file_bytes(folder("run") + "/events.jsonl"),
              AllOf(HasSubstr("CONVOY_KEY=KEY "), testing::Not(HasSubstr(printed))));

  std::filesystem::permissions(keys, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  Process open({kMaster, "key", "--keys", keys});
  EXPECT_EQ(open.wait(10s), kFailure);
  EXPECT_THAT(open.output(), HasSubstr("other users can read these keys"));
}

TEST_F(Programs, MasterSaysWhatItWaitsFor) {
  Process train = master(training(folder("run"), {"--slaves", "2"}));
  ASSERT_TRUE(train.wait_for("waiting for 2 slaves; start each of them with:\n  convoy-slave " + endpoint_, 20s))
      << train.output();
  Process a = slave("a");
  ASSERT_TRUE(train.wait_for("1 of 2 slaves: a (", 20s)) << train.output();
  EXPECT_EQ(train.output().find("convoy-slave"), train.output().rfind("convoy-slave")) << "how to join is told once";
  Process same_name = slave("a");
  ASSERT_TRUE(same_name.wait_for("the name 'a' is taken", 20s)) << same_name.output();
  train.signal(SIGINT);
  EXPECT_EQ(train.wait(10s), kInterrupted) << train.output();
}

TEST_F(Programs, ASlaveTooManyForFixedSharesWaits) {
  Process a = slave("a");
  Process b = slave("b");
  Process c = slave("c");
  // A plain run shows that all three are there, and the teacher's outputs give the third time to ask for the next.
  Process first = master(training(folder("first"), {"--slaves", "3", "--steps", "2"}));
  ASSERT_EQ(first.wait(60s), kSuccess) << first.output();
  Process train = master(training(folder("run"), {"--slaves", "2", "--shares", "1,1", "--steps", "40", "--set",
                                                  "training.teacher=" + folder("first")}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  EXPECT_THAT(train.output(), testing::Not(HasSubstr("joins")));
}

TEST_F(Programs, AnInterruptedWaitLeavesNoFolderBehind) {
  Process fresh = master(training(folder("fresh"), {"--slaves", "1"}));
  ASSERT_TRUE(fresh.wait_for("waiting for 1 slave", 20s)) << fresh.output();
  fresh.signal(SIGINT);
  EXPECT_EQ(fresh.wait(10s), kInterrupted) << fresh.output();
  EXPECT_THAT(fresh.output(), testing::Not(HasSubstr("run folder")));
  EXPECT_FALSE(std::filesystem::exists(folder("fresh")));
  // What else is in a folder stays, and so does the folder.
  std::filesystem::create_directory(folder("used"));
  std::ofstream(folder("used") + "/notes.txt") << "mine";
  Process used = master(training(folder("used"), {"--slaves", "1"}));
  ASSERT_TRUE(used.wait_for("waiting for 1 slave", 20s)) << used.output();
  EXPECT_TRUE(std::filesystem::exists(folder("used") + "/config.yaml"));
  used.signal(SIGINT);
  EXPECT_EQ(used.wait(10s), kInterrupted) << used.output();
  EXPECT_EQ(file_bytes(folder("used") + "/notes.txt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder("used") + "/config.yaml"));
}

TEST_F(Programs, AMasterAloneDoesNotSpeakOfSlaves) {
  Process plan = master({"plan", kSource + "/nets/glyphs.yaml", "--threads", "1"});
  ASSERT_EQ(plan.wait(60s), kSuccess) << plan.output();
  EXPECT_THAT(plan.output(),
              AllOf(HasSubstr("stage conv1"), testing::Not(HasSubstr("slave")), testing::Not(HasSubstr("--insecure"))));
}

/// Within the time that a newcomer has patience for.
TEST_F(Programs, ASlaveSaysWhyItCannotJoin) {
  const auto slave_of = [](const std::string& address) {
    return Process({kSlave, address, "--insecure", "--name", "a", "--device", "reference"});
  };
  Process refused = slave_of(endpoint_);
  Process unresolved = slave_of("tcp://nosuch.invalid:5570");
  EXPECT_TRUE(refused.wait_for("no master listens there now; this slave keeps trying", 15s)) << refused.output();
  EXPECT_TRUE(unresolved.wait_for("nosuch.invalid does not resolve", 15s)) << unresolved.output();
  Process train = master(training(folder("run"), {"--slaves", "1", "--steps", "2"}));
  EXPECT_EQ(train.wait(60s), kSuccess) << train.output() << refused.output();
  EXPECT_TRUE(refused.running()) << refused.output();
  const std::string said = unresolved.output();
  EXPECT_EQ(said.find("does not resolve"), said.rfind("does not resolve")) << "it is told once";
}

/// Somebody who has heard the master's call repeats it from many addresses, a hundred times as often as the master.
TEST_F(Programs, ASlaveFindsItsMasterThoughOthersCallWithItsKey) {
  const std::string keys = folder("keys.json");
  std::vector<std::string> arguments = training(folder("run"), {"--slaves", "1", "--steps", "2", "--keys", keys});
  std::erase(arguments, "--insecure");
  Process train = master(arguments);
  ASSERT_TRUE(train.wait_for("CONVOY_KEY=", 20s)) << train.output();
  const std::string key = train.output().substr(train.output().find("CONVOY_KEY=") + 11, 128);
  const FalseCaller caller(wire::join_key_from(key).master);
  Process a({kSlave, "--key", key, "--name", "a", "--threads", "1", "--once"});
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output() << a.output();
  const std::string said = a.output();
  EXPECT_EQ(said.find("no such master answers"), said.rfind("no such master answers")) << said;
  EXPECT_THAT(train.output(), testing::Not(HasSubstr("turned away")));
}

/// One slave comes over IPv6 and one over IPv4, and both send to each other.
TEST_F(Programs, SlavesJoinOverBothFamilies) {
  if (std::ranges::count(wire::own_addresses(), "::1") == 0) {
    GTEST_SKIP() << "this machine has no IPv6: no interface has the address ::1";
  }
  const std::string port = endpoint_.substr(endpoint_.rfind(':') + 1);
  std::vector<std::string> arguments = training(folder("run"), {"--slaves", "2", "--steps", "5"});
  std::ranges::replace(arguments, endpoint_, "tcp://*:" + port);
  std::ranges::replace(arguments, std::string("star"), std::string("ring"));
  Process train = master(arguments);
  ASSERT_TRUE(train.wait_for("convoy-slave " + wire::endpoint_for_slaves("tcp://*:" + port), 20s)) << train.output();
  const auto slave_at = [&](const std::string& host, const std::string& name) {
    return Process({kSlave, "tcp://" + host + ":" + port, "--insecure", "--name", name, "--threads", "1", "--once"});
  };
  Process a = slave_at("[::1]", "a");
  Process b = slave_at("127.0.0.1", "b");
  ASSERT_EQ(train.wait(60s), kSuccess) << train.output() << a.output() << b.output();
  EXPECT_THAT(train.output(), testing::Not(HasSubstr("through the master"))) << "the slaves reach each other";
  EXPECT_EQ(a.wait(20s), kSuccess) << a.output();
  EXPECT_EQ(b.wait(20s), kSuccess) << b.output();
}

TEST_F(Programs, KeysAreMadeWhereTheyAreAskedFor) {
  const std::string keys = folder("keys.json");
  Process typo = master({"key", "--keys", keys});
  EXPECT_EQ(typo.wait(10s), kFailure);
  EXPECT_THAT(typo.output(), AllOf(HasSubstr("there is no such key file"), HasSubstr("key --make --keys " + keys)));
  EXPECT_FALSE(std::filesystem::exists(keys));
  Process made = master({"key", "--make", "--keys", keys});
  EXPECT_EQ(made.wait(10s), kSuccess) << made.output();
  Process again = master({"key", "--keys", keys});
  EXPECT_EQ(again.wait(10s), kSuccess) << again.output();
  EXPECT_EQ(made.output(), again.output());
}

}  // namespace
}  // namespace convoy
