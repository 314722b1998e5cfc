// Tests of the key file and of the keys of a master that runs.

#include "master/cluster/key_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/files.hpp"
#include "master/cluster/key_ring.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

SlaveKey slave_key(const std::string& name, bool once = false) {
  return {.name = name, .public_key = wire::make_key_pair().public_key, .made = time_now(), .once = once, .used = {}};
}

class KeyFiles : public testing::Test {
 protected:
  /// Adds a slave's key as another process would, and returns its public key.
  std::string add(const std::string& name, bool once = false) const {
    const SlaveKey key = slave_key(name, once);
    change_keys(file_, [&](KeyFile& keys) { keys.slaves.push_back(key); });
    return key.public_key;
  }
  void revoke(const std::string& name) const {
    change_keys(file_,
                [&](KeyFile& keys) { std::erase_if(keys.slaves, [&](auto& each) { return each.name == name; }); });
  }
  void write(const std::string& text) const {
    std::ofstream(file_) << text;
    fs::permissions(file_, fs::perms::owner_read | fs::perms::owner_write);
  }
  /// The text of the file with its first `what` replaced.
  std::string with(const std::string& what, const std::string& by) const {
    std::string text = read_text(file_);
    const auto at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what << " is not in " << text;
    return text.replace(at, what.size(), by);
  }

  TemporaryFolder folder_;
  std::string file_ = folder_.path() + "/keys.json";
};

TEST_F(KeyFiles, KeepWhatTheyAreGiven) {
  const KeyFile made = read_or_make_keys(file_);
  const std::string attic = add("attic");
  const std::string cellar = add("cellar", true);
  change_keys(file_, [](KeyFile& keys) {
    keys.shared = false;
    keys.slaves[1].used = "2026-11-25T09:00:00Z";
  });
  const KeyFile read = read_keys(file_);
  EXPECT_EQ(read.keys.master.secret_key, made.keys.master.secret_key);
  EXPECT_EQ(read.keys.member.secret_key, made.keys.member.secret_key);
  EXPECT_FALSE(read.shared);
  ASSERT_EQ(read.slaves.size(), 2U);
  EXPECT_EQ(read.slaves[0].public_key, attic);
  EXPECT_FALSE(read.slaves[0].once);
  EXPECT_EQ(read.slaves[1].public_key, cellar);
  EXPECT_TRUE(read.slaves[1].once);
  EXPECT_EQ(read.slaves[1].used, "2026-11-25T09:00:00Z");
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1)
      << "nothing else is left";
}

TEST_F(KeyFiles, OfEarlierReleasesHaveNoSlaves) {
  const KeyFile made = read_or_make_keys(file_);
  const auto pair = [](const wire::KeyPair& keys) {
    return fmt::format(R"({{"public": "{}", "secret": "{}"}})", keys.public_key, keys.secret_key);
  };
  write(fmt::format(R"({{"master": {}, "member": {}}})", pair(made.keys.master), pair(made.keys.member)));
  const KeyFile read = read_keys(file_);
  EXPECT_TRUE(read.shared);
  EXPECT_THAT(read.slaves, IsEmpty());
}

TEST_F(KeyFiles, LoseNoKeyWhenManyAddKeysAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 8; ++i) add(fmt::format("s{}-{}", t, i));
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(read_keys(file_).slaves.size(), 64U);
}

TEST_F(KeyFiles, StayAsTheyWereWhenAChangeFails) {
  add("attic");
  const std::string before = read_text(file_);
  EXPECT_THROW(change_keys(file_,
                           [](KeyFile& keys) {
                             keys.slaves.clear();
                             throw Error("no");
                           }),
               Error);
  EXPECT_EQ(read_text(file_), before);
}

/// Each fault is refused with the file and the line, and no error quotes a secret.
TEST_F(KeyFiles, WithFaultsAreRefused) {
  add("attic");
  const std::string secret = read_keys(file_).keys.master.secret_key;
  const std::string key = read_keys(file_).slaves[0].public_key;
  const std::string member = read_keys(file_).keys.member.public_key;
  const std::string entry =
      fmt::format(R"({{"name": "b", "public": "{}", "made": "2026-11-25T09:00:00Z", "once": false}})",
                  wire::make_key_pair().public_key);
  const std::string list = "\"slaves\": [";
  const auto refused = [&](const std::string& text, const std::string& why) {
    write(text);
    try {
      read_keys(file_);
      ADD_FAILURE() << "no error, expected: " << why;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(file_ + ":"), HasSubstr(why), Not(HasSubstr(secret.substr(0, 20)))));
      // The file may be somebody's net or notes.
      EXPECT_THAT(error.what(), AllOf(Not(HasSubstr("chmod")), Not(HasSubstr("remove"))));
    }
  };
  std::vector<std::pair<std::string, std::string>> cases;
  cases.emplace_back(with("\"shared\": true", "\"shared\": true,\n \"owner\": 1"), ":11: the key file: ");
  cases.emplace_back(with("\"once\": false", "\"once\": false, \"admin\": true"), "admin");
  cases.emplace_back(with("\"once\": false", "\"once\": maybe"), "once");
  cases.emplace_back(with("\"shared\": true", "\"shared\": true, \"shared\": false"), "shared is given twice");
  cases.emplace_back(with(secret, secret.substr(1)), "secret is no key");
  cases.emplace_back(with(secret, secret + "0"), "secret is no text of at most 40 bytes");
  cases.emplace_back(with("\"attic\"", "\"\""), "the name is empty");
  cases.emplace_back(with("\"attic\"", "\"" + std::string(65, 'a') + "\""), "name is no text of at most 64 bytes");
  cases.emplace_back(with("\"attic\"", "\"a\\u0007\""), "cannot be printed");
  cases.emplace_back(with("\"attic\"", "\"master\""), "the name of the master");
  cases.emplace_back(with("\"attic\"", "\"b\""), "");
  cases.back().first.insert(cases.back().first.find(list) + list.size(), entry + ",");
  cases.back().second = "is the name of another slave too";
  cases.emplace_back(with(key, member), "is the key of another slave too");
  cases.emplace_back(with("\"once\": false", "\"once\": false, \"used\": \"2026-11-25T09:00:00Z\""), "one-time key");
  cases.emplace_back(with("\"made\": \"2", "\"made\": \"x"), "is no time");
  cases.emplace_back("", "not a key file");
  cases.emplace_back("[1, 2]", "not a key file");
  cases.emplace_back(read_text(file_).substr(0, 200), "not a key file");
  cases.emplace_back(std::string(100000, '['), "not a key file");
  cases.emplace_back(std::string((1 << 20) + 1, ' '), "at most 1048576");
  std::string many = read_text(file_);
  for (int i = 0; i < 1100; ++i) many.insert(many.find(list) + list.size(), "1,");
  cases.emplace_back(many, "slaves is no list of at most 1024 maps");
  for (const auto& [text, why] : cases) refused(text, why);
}

TEST_F(KeyFiles, ThatOthersCanReadAreRefused) {
  add("attic");
  fs::permissions(file_, fs::perms::group_read, fs::perm_options::add);
  EXPECT_THAT([&] { read_keys(file_); }, testing::ThrowsMessage<Error>(HasSubstr("other users can read these keys")));
}

TEST_F(KeyFiles, SayToWhomANameBelongs) {
  KeyFile keys;
  for (const char* name : {"attic", "attic-b"}) keys.slaves.push_back(slave_key(name));
  const auto owner = [&](const std::string& name) {
    const SlaveKey* found = owner_of_name(keys, name);
    return found == nullptr ? "" : found->name;
  };
  EXPECT_EQ(owner("attic"), "attic");
  EXPECT_EQ(owner("attic-cpu"), "attic");
  EXPECT_EQ(owner("attic-b"), "attic-b");
  EXPECT_EQ(owner("attic-b-cuda:0"), "attic-b");
  EXPECT_EQ(owner("attic2"), "");
  EXPECT_EQ(owner("atti"), "");
}

TEST_F(KeyFiles, AreFollowedWhileAMasterRuns) {
  KeyRing ring(file_);
  const std::string shared = ring.keys().member.public_key;
  EXPECT_EQ(ring.objection(shared), "");
  const std::string attic = add("attic");
  EXPECT_EQ(ring.objection(attic), "") << "an unknown key is looked up at once";
  EXPECT_EQ(ring.objection_to_name(attic, "attic-cpu"), "");
  EXPECT_THAT(ring.objection_to_name(attic, "cellar"), HasSubstr("start it with --name attic"));
  EXPECT_THAT(ring.objection_to_name(shared, "attic"), HasSubstr("belongs to slave attic"));
  EXPECT_EQ(ring.objection_to_name(shared, "cellar"), "");
  revoke("attic");
  change_keys(file_, [](KeyFile& keys) { keys.shared = false; });
  EXPECT_NE(ring.objection(wire::make_key_pair().public_key), "") << "and has the file read";
  EXPECT_THAT(ring.objection(attic), HasSubstr("the key of slave attic was revoked"));
  EXPECT_THAT(ring.objection(shared), HasSubstr("turned off"));
}

TEST_F(KeyFiles, ThatBreakLeaveARunItsKeys) {
  KeyRing ring(file_);
  write("broken");
  EXPECT_NE(ring.objection(wire::make_key_pair().public_key), "");
  EXPECT_EQ(ring.objection(ring.keys().member.public_key), "");
  EXPECT_THAT(ring.take_notices(), ElementsAre(HasSubstr("the run goes on with the keys that it has")));
  EXPECT_THAT(ring.take_notices(), IsEmpty());
}

TEST_F(KeyFiles, OneTimeKeysServeOneSlave) {
  const std::string guest = add("guest", true);
  KeyRing ring(file_, 0ms);
  EXPECT_EQ(ring.objection(guest), "");
  ring.join(guest);
  EXPECT_NE(read_keys(file_).slaves[0].used, "");
  ring.set_present({guest});
  EXPECT_EQ(ring.objection(guest), "") << "the slave is here";
  KeyRing other(file_);
  EXPECT_THAT(other.objection(guest), HasSubstr("used up"));
  EXPECT_THAT([&] { other.join(guest); }, testing::ThrowsMessage<Error>(HasSubstr("used up")));
  ring.set_present({});
  EXPECT_THAT(ring.objection(guest), HasSubstr("the one-time key of slave guest is used up"));
  EXPECT_THAT(ring.take_notices(), ElementsAre(HasSubstr("joins with its one-time key"), HasSubstr("is used up")));
}

TEST_F(KeyFiles, OneTimeKeysWaitForTheirSlaveToComeBack) {
  const std::string guest = add("guest", true);
  KeyRing ring(file_, 1h);
  ring.join(guest);
  ring.set_present({});
  EXPECT_EQ(ring.objection(guest), "");
  ring.join(guest);
}

}  // namespace
}  // namespace convoy
