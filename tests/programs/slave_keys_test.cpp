// Keys that single slaves have for themselves: `convoy-master key add`, `list`, `revoke` and `shared`.

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SlaveKeys : public Programs {
 protected:
  /// What `convoy-master key WORDS` prints; it must succeed.
  std::string key(std::vector<std::string> words) const {
    words.insert(words.begin(), "key");
    words.insert(words.end(), {"--make", "--keys", keys_});
    Process process = master(words);
    EXPECT_EQ(process.wait(20s), kSuccess) << process.output();
    return process.output();
  }
  /// The key in the line that `key add` prints.
  std::string add(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"add", name, "--listen", endpoint_});
    const std::string line = key(more);
    EXPECT_THAT(line,
                AllOf(testing::StartsWith("CONVOY_KEY="),
                      HasSubstr(" convoy-slave " + endpoint_ + " --name " + name + "\n"), Not(HasSubstr("--key"))));
    return line.substr(11, 128);
  }
  Process train(const std::string& out, std::vector<std::string> more, const std::string& exchange = "star") const {
    more.insert(more.end(), {"--keys", keys_});
    std::vector<std::string> arguments = training(folder(out), more);
    std::erase(arguments, "--insecure");
    std::ranges::replace(arguments, std::string("star"), exchange);
    return master(arguments);
  }
  Process join(const std::string& name, const std::string& key, std::vector<std::string> more = {}) const {
    more.insert(more.begin(),
                {"/usr/bin/env", "CONVOY_KEY=" + key, kSlave, endpoint_, "--name", name, "--threads", "1"});
    return Process(more);
  }

  std::string keys_ = folder("keys.json");
};

TEST_F(SlaveKeys, AreListedWithoutSecrets) {
  const std::string attic = add("attic");
  const std::string guest = add("guest", {"--once"});
  const std::string list = key({"list"});
  EXPECT_THAT(list, AllOf(HasSubstr("attic "), HasSubstr("made 20"), HasSubstr("guest "),
                          HasSubstr("one-time, not used yet"), HasSubstr("the key for all slaves is on")));
  EXPECT_THAT(list, AllOf(Not(HasSubstr(attic.substr(64))), Not(HasSubstr(guest.substr(64)))));
  Process twice = master({"key", "add", "attic", "--keys", keys_});
  EXPECT_EQ(twice.wait(20s), kFailure);
  EXPECT_THAT(twice.output(), HasSubstr("key revoke attic"));
  Process quoted = master({"key", "add", "a'b; c", "--keys", keys_});
  EXPECT_EQ(quoted.wait(20s), kFailure);
  EXPECT_THAT(quoted.output(), HasSubstr("other characters than letters"));
  Process unknown = master({"key", "revoke", "nobody", "--keys", keys_});
  EXPECT_EQ(unknown.wait(20s), kFailure);
  EXPECT_THAT(unknown.output(), HasSubstr("key list"));
}

/// In a ring the slaves exchange maps among themselves.
TEST_F(SlaveKeys, AreRevokedInTheMiddleOfARun) {
  const std::string own = add("b");
  const std::string shared = key({}).substr(0, 128);
  Process run = train("run", {"--slaves", "3", "--epochs", "500", "--format", "json"}, "ring");
  ASSERT_TRUE(run.wait_for("waiting for 3 slaves", 30s)) << run.output();
  Process a = join("a", shared);
  Process b = join("b", own);
  Process c = join("c", shared);
  ASSERT_TRUE(run.wait_for("\"step\":5,", 60s)) << run.output() << a.output() << b.output() << c.output();
  EXPECT_THAT(key({"revoke", "b"}), HasSubstr("is revoked"));
  ASSERT_TRUE(run.wait_for("slave b is not admitted any more: the key of slave b was revoked; 2 slaves are left", 30s))
      << run.output();
  ASSERT_TRUE(b.wait_for("the run is over: slave b is not admitted any more", 30s)) << b.output();
  ASSERT_TRUE(b.wait_for("the master does not accept the key of this slave", 30s)) << b.output();
  ASSERT_TRUE(run.wait_for("turned away 127.0.0.1: the key of slave b was revoked", 30s)) << run.output();
  ASSERT_TRUE(run.wait_for("going on after step", 60s)) << run.output();
  EXPECT_TRUE(a.running() && c.running() && run.running());
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(60s), kInterrupted) << run.output();
  EXPECT_THAT(run.output(), Not(HasSubstr("slave a is")));
  EXPECT_THAT(run.output(), Not(HasSubstr("slave c is")));
}

TEST_F(SlaveKeys, ServeTheirOwnNamesOnly) {
  const std::string own = add("b");
  const std::string shared = key({}).substr(0, 128);
  Process run = train("run", {"--slaves", "3", "--steps", "3"});
  ASSERT_TRUE(run.wait_for("waiting for 3 slaves", 30s)) << run.output();
  Process wrong = join("a", own);
  EXPECT_TRUE(wrong.wait_for("the key of this slave is for the name b, not 'a'; start it with --name b", 30s))
      << wrong.output();
  Process thief = join("b", shared);
  EXPECT_TRUE(thief.wait_for("the name 'b' belongs to slave b, which has a key of its own", 30s)) << thief.output();
  Process both = join("b", own, {"--device", "cpu,reference", "--once"});
  EXPECT_TRUE(run.wait_for("2 of 3 slaves", 60s)) << run.output() << both.output();
  Process c = join("c", shared);
  EXPECT_EQ(run.wait(120s), kSuccess) << run.output() << both.output() << c.output();
}

TEST_F(SlaveKeys, OfOneTimeServeOnce) {
  const std::string once = add("guest", {"--once"});
  Process first = train("first", {"--slaves", "1", "--steps", "2"});
  Process guest = join("guest", once, {"--once"});
  ASSERT_EQ(first.wait(60s), kSuccess) << first.output() << guest.output();
  EXPECT_THAT(first.output(), HasSubstr("slave guest joins with its one-time key"));
  EXPECT_THAT(key({"list"}), HasSubstr("one-time, used 20"));
  Process second = train("second", {"--slaves", "1", "--steps", "2"});
  ASSERT_TRUE(second.wait_for("waiting for 1 slave", 30s)) << second.output();
  Process again = join("guest", once);
  EXPECT_TRUE(again.wait_for("the master does not accept the key of this slave, which may be revoked, used up", 30s))
      << again.output();
  EXPECT_TRUE(second.wait_for("turned away 127.0.0.1: the one-time key of slave guest is used up", 30s))
      << second.output();
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(30s), kInterrupted) << second.output();
}

TEST_F(SlaveKeys, RemainWhenTheSharedKeyIsTurnedOff) {
  const std::string shared = key({}).substr(0, 128);
  const std::string own = add("b");
  EXPECT_THAT(key({"shared", "off"}), HasSubstr("key add NAME"));
  Process off = master({"key", "--keys", keys_});
  EXPECT_EQ(off.wait(20s), kFailure);
  EXPECT_THAT(off.output(), HasSubstr("key shared on"));
  Process run = train("run", {"--slaves", "2", "--steps", "2"});
  ASSERT_TRUE(run.wait_for("the line that `convoy-master key add NAME` prints", 30s)) << run.output();
  EXPECT_THAT(run.output(), Not(HasSubstr("CONVOY_KEY=")));
  Process a = join("a", shared);
  EXPECT_TRUE(run.wait_for("turned away 127.0.0.1: the key for all slaves is turned off", 30s)) << run.output();
  // The other slave reads its key from a file.
  const std::string file = folder("b.key");
  std::ofstream(file) << own << "\n";
  const std::vector<std::string> from_file{kSlave, endpoint_,    "--name", "b",     "--threads",
                                           "1",    "--key-file", file,     "--once"};
  std::filesystem::permissions(file, std::filesystem::perms::all);
  Process open(from_file);
  EXPECT_EQ(open.wait(20s), kFailure);
  EXPECT_THAT(open.output(), HasSubstr(file + ": other users can read this key"));
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  Process b(from_file);
  EXPECT_TRUE(run.wait_for("1 of 2 slaves: b", 30s)) << run.output() << b.output();
  key({"shared", "on"});
  EXPECT_EQ(run.wait(60s), kSuccess) << run.output() << a.output() << b.output();
}

}  // namespace
}  // namespace convoy
