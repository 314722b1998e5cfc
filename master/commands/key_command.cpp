// The command `key`: the key for all slaves, and keys that single slaves have for themselves.
#include <fmt/core.h>

#include <algorithm>

#include "cli/command_line.hpp"
#include "core/text.hpp"
#include "master/cluster/join_line.hpp"
#include "master/cluster/key_file.hpp"
#include "master/commands/options.hpp"
#include "plan/plan.hpp"
#include "wire/endpoint.hpp"

namespace convoy {
namespace {

void expect_words(const KeyOptions& options) {
  const bool takes_name = !options.action.empty() && options.action != "list";
  if (takes_name && options.name.empty()) {
    throw UsageError(
        options.action == "shared"
            ? "key shared needs a word; write `convoy-master key shared off` or `key shared on`"
            : fmt::format("key {0} needs the name of a slave, as in: convoy-master key {0} attic", options.action));
  }
  if (!takes_name && !options.name.empty()) {
    throw UsageError(fmt::format("'{}' is one word too many; `convoy-master key {}` takes no name",
                                 printable(options.name), options.action));
  }
  if (options.once && options.action != "add") throw UsageError("--once is an option of `key add NAME`; leave it out");
  if (options.action == "shared" && options.name != "on" && options.name != "off") {
    throw UsageError(fmt::format("key shared takes on or off, not '{}'", printable(options.name)));
  }
}

void add(const KeyOptions& options) {
  if (const auto fault = fault_of_name(options.name)) fail("key add: {}; choose another", *fault);
  // The name stands in a line that people paste into a shell.
  const bool plain = options.name.front() != '-' && options.name.find_first_not_of(
                                                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                        "0123456789_-.") == std::string::npos;
  if (!plain)
    fail("key add: the name '{}' has other characters than letters, digits, _, - and .; choose another", options.name);
  if (is_master(options.name)) fail("key add: the name {} is the master's own; choose another", kMasterName);
  wire::address_to_listen(options.listen);
  const wire::KeyPair pair = wire::make_key_pair();
  std::string master;
  change_keys(options.keys, [&](KeyFile& file) {
    if (std::ranges::find(file.slaves, options.name, &SlaveKey::name) != file.slaves.end()) {
      fail(
          "key add: slave {0} has a key already, whose secret half is not stored here; to make a new one, first run "
          "`convoy-master key revoke {0}`",
          options.name);
    }
    file.slaves.push_back(
        {.name = options.name, .public_key = pair.public_key, .made = time_now(), .once = options.once, .used = {}});
    master = file.keys.master.public_key;
  });
  fmt::print("{}\n", join_line(options.listen, {master, pair}, options.name));
}

void revoke(const KeyOptions& options) {
  change_keys(options.keys, [&](KeyFile& file) {
    const auto found = std::ranges::find(file.slaves, options.name, &SlaveKey::name);
    if (found == file.slaves.end()) {
      fail("key revoke: no key has the name '{}'; `convoy-master key list` shows all names", printable(options.name));
    }
    file.slaves.erase(found);
  });
  fmt::print("the key of {} is revoked; a master that runs drops the slave within about a second\n", options.name);
}

void list(const KeyOptions& options) {
  const KeyFile file = read_or_make_keys(options.keys);
  for (const SlaveKey& each : file.slaves) {
    const std::string use = !each.once          ? ""
                            : each.used.empty() ? "one-time, not used yet"
                                                : "one-time, used " + each.used;
    fmt::print("{:<24} made {}{}{}\n", each.name, each.made, use.empty() ? "" : "  ", use);
  }
  fmt::print("the key for all slaves is {}\n", file.shared ? "on" : "off");
}

void turn_shared(const KeyOptions& options) {
  const bool on = options.name == "on";
  change_keys(options.keys, [&](KeyFile& file) { file.shared = on; });
  fmt::print("the key for all slaves is {}{}\n", options.name,
             on ? "" : "; slaves need keys of their own, which `convoy-master key add NAME` makes");
}

void print_shared(const KeyOptions& options) {
  const KeyFile file = read_or_make_keys(options.keys);
  if (!file.shared) {
    fail(
        "the key for all slaves is turned off; make one for a single slave with `convoy-master key add NAME`, or turn "
        "it on with `convoy-master key shared on`");
  }
  fmt::print("{}\n", to_text(file.keys.join_key()));
}

}  // namespace

int key_command(const KeyOptions& options) {
  expect_words(options);
  if (!options.keys.empty() && !options.make && !has_key_file(options.keys)) {
    fail(
        "{}: there is no such key file; make it with `convoy-master key --make --keys {}`, or start `convoy-master "
        "train` with slaves and the same --keys",
        options.keys, options.keys);
  }
  if (options.action == "add") {
    add(options);
  } else if (options.action == "revoke") {
    revoke(options);
  } else if (options.action == "list") {
    list(options);
  } else if (options.action == "shared") {
    turn_shared(options);
  } else {
    print_shared(options);
  }
  return 0;
}

}  // namespace convoy
