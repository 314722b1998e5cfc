#include "slave/serve.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <optional>
#include <thread>

#include "slave/session.hpp"
#include "slave/state_cache.hpp"
#include "wire/beacon.hpp"
#include "wire/link.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Channel;
using wire::Clock;

constexpr auto kTick = 200ms;
constexpr auto kHelloInterval = 500ms;
/// How long the slave tries to connect to the sender of a broadcast before it looks for another one.
constexpr auto kBeaconPatience = 5s;

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

/// Prints each line once, unless another line came in between.
class Reporter {
 public:
  void report(const std::string& line) {
    if (line == last_) return;
    last_ = line;
    say(line);
  }

 private:
  std::string last_;
};

std::string place(const SlaveOptions& options) {
  return options.master.empty() ? fmt::format("on this LAN (its broadcasts come to UDP port {})", wire::kBeaconPort)
                                : "at " + options.master;
}

std::string waiting(const SlaveOptions& options) {
  return options.once ? "" : "; waiting for the next run " + place(options);
}

wire::Hello hello_of(const SlaveOptions& options, const DeviceInfo& info, const wire::ClientLink& link) {
  return {.version = wire::kProtocolVersion,
          .name = options.name,
          .device = info.description,
          .threads = static_cast<std::uint32_t>(info.threads),
          .memory = static_cast<std::uint64_t>(static_cast<double>(options.memory) / info.memory_factor),
          .filter_block = static_cast<std::uint32_t>(info.filter_block),
          .capabilities = {wire::kSixteenBits},
          .peer_port = static_cast<std::uint32_t>(link.peer_port()),
          .peer_key = link.peer_key()};
}

/// Says Hello until the master welcomes this slave. Returns the run's name, or nothing once `stop` is set. Throws
/// PeerLost if the slave is not connected by the deadline.
std::optional<std::string> join(wire::ClientLink& link, const wire::Hello& hello, const std::atomic<bool>& stop,
                                Reporter& reporter, wire::Deadline deadline) {
  auto next_hello = Clock::now();
  while (!stop) {
    if (!link.connected() && Clock::now() >= deadline) {
      throw PeerLost("master", "no master with the key listens at the address of the broadcast");
    }
    if (link.connected() && Clock::now() >= next_hello) {
      link.send(Channel::control, {hello, {}}, Clock::now() + kTick);
      next_hello = Clock::now() + kHelloInterval;
    }
    const auto from = link.receive(Clock::now() + kTick);
    if (link.turned_away()) {
      reporter.report(
          "the master breaks off the connection: start this slave with the --key that the master prints, or start both "
          "with "
          "--insecure");
    }
    if (!from) continue;
    if (const auto* welcome = std::get_if<wire::Welcome>(&from->envelope.message)) {
      link.send(Channel::data, {wire::Attach{hello.name}, {}}, Clock::now() + kTick);
      return welcome->run;
    }
    if (const auto* refused = std::get_if<wire::Refused>(&from->envelope.message)) {
      reporter.report("the master refuses this slave: " + refused->reason);
      next_hello = Clock::now() + 2s;
    }
  }
  return std::nullopt;
}

/// Serves one run. Returns false once `stop` is set. Sets `joined` when the slave has joined the run.
bool serve_run(const SlaveOptions& options, Device& device, StateCache& cache, const std::atomic<bool>& stop,
               Reporter& reporter, bool& joined) {
  const bool search = options.master.empty();
  const std::optional<std::string> master = search ? wire::find_master(options.key->master, stop) : options.master;
  if (!master) return false;
  if (search) reporter.report("found the master at " + *master);
  wire::ClientLink link(*master, {.join_key = options.key}, options.peer_port);
  const wire::Hello hello = hello_of(options, device.info(), link);
  const auto patience = search ? Clock::now() + kBeaconPatience : wire::Deadline::max();
  const std::optional<std::string> run = join(link, hello, stop, reporter, patience);
  if (!run) return false;
  joined = true;
  reporter.report(fmt::format("joined run {} as {}", *run, options.name));
  Session session(link, device, options.memory, cache);
  const std::optional<std::string> reason = session.serve(stop, options.leave_patience, [&] {
    reporter.report("leaving: the master takes the shards back after this step; press Ctrl-C again to leave at once");
  });
  if (!reason) {
    link.send(Channel::control, {wire::Bye{"stopped by its user"}, {}}, Clock::now() + kTick);
    return false;
  }
  reporter.report(fmt::format("run over: {}{}", *reason, stop ? "" : waiting(options)));
  return !stop;
}

}  // namespace

void serve(const SlaveOptions& options, Device& device, const std::atomic<bool>& stop) {
  Reporter reporter;
  say(fmt::format("slave {}: {}; waiting for a master {}", options.name, device.info().description, place(options)));
  StateCache cache(options.cache);
  bool joined = false;
  while (!stop) {
    try {
      if (!serve_run(options, device, cache, stop, reporter, joined)) return;
    } catch (const PeerLost& lost) {
      reporter.report(fmt::format("{}{}", lost.what(), waiting(options)));
    }
    if (options.once && joined) return;
    // The master may be about to end, or another program may answer and break off every connection, so the slave waits.
    std::this_thread::sleep_for(kHelloInterval);
  }
}

}  // namespace convoy
