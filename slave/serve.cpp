#include "slave/serve.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <optional>

#include "core/output.hpp"
#include "core/text.hpp"
#include "devices/same_bits.hpp"
#include "slave/image_store.hpp"
#include "slave/session.hpp"
#include "slave/state_cache.hpp"
#include "wire/beacon.hpp"
#include "wire/link.hpp"
#include "wire/search.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using wire::Channel;
using wire::Clock;

constexpr auto kTick = 200ms;
constexpr auto kHelloInterval = 500ms;
/// How long the slave tries to connect before it reports a problem.
constexpr auto kQuiet = 3s;
/// The same after a run. The limit is longer because the master has ended, and the next may start much later.
constexpr auto kQuietAfterARun = 60s;
/// The time after which the slave reports the same problem again.
constexpr auto kTellAgain = 10min;
/// How long the slave tries to connect to a master that it found by broadcasts before it looks for one again.
constexpr auto kBeaconPatience = 5s;

void say(const std::string& line) { put(stdout, printable(line) + "\n"); }

/// Prints all events. Prints a problem when it is new, and again after kTellAgain.
class Reporter {
 public:
  explicit Reporter(const SlaveOptions& options) : say_(options.say ? options.say : say) {}

  void event(const std::string& line) {
    told_.clear();
    say_(line);
  }
  void joined(const std::string& line) {
    quiet_ = kQuietAfterARun;
    event(line);
  }
  void trouble(const std::string& line) {
    constexpr std::size_t kMostTold = 64;
    const auto now = Clock::now();
    if (told_.size() >= kMostTold) return;
    const auto [known, fresh] = told_.emplace(line, now);
    if (!fresh && now - known->second < kTellAgain) return;
    known->second = now;
    say_(line);
  }

  /// How long the slave tries to connect before it reports a problem.
  std::chrono::milliseconds quiet() const { return quiet_; }

 private:
  std::function<void(const std::string&)> say_;
  std::map<std::string, wire::Deadline> told_;
  std::chrono::milliseconds quiet_ = kQuiet;
};

std::string place(const SlaveOptions& options) {
  return options.master.empty() ? fmt::format("on this LAN (its broadcasts come to UDP port {})", wire::kBeaconPort)
                                : "at " + options.master;
}

std::string waiting(const SlaveOptions& options) {
  return options.once ? "" : "; waiting for the next run " + place(options);
}

wire::Hello hello_of(const SlaveOptions& options, const DeviceInfo& info, bool same_bits, bool keeps_images,
                     const wire::ClientLink& link) {
  std::vector<std::string> capabilities{wire::kSixteenBits};
  if (info.paced) capabilities.emplace_back(wire::kPaced);
  if (same_bits) capabilities.emplace_back(wire::kSameBits);
  if (keeps_images) capabilities.emplace_back(wire::kKeepsImages);
  return {.version = wire::kProtocolVersion,
          .name = options.name,
          .device = info.description,
          .threads = static_cast<std::uint32_t>(info.threads),
          .memory = static_cast<std::uint64_t>(static_cast<double>(options.memory) / info.memory_factor),
          .filter_block = static_cast<std::uint32_t>(info.filter_block),
          .capabilities = std::move(capabilities),
          .peer_port = static_cast<std::uint32_t>(link.peer_port()),
          .peer_key = link.peer_key(),
          .memory_factor = info.memory == 0 ? info.memory_factor : 0.0};
}

/// Says Hello until the master welcomes this slave. Returns the run's name, or nothing once `stop` is set. Throws
/// PeerLost if the slave is not connected by the deadline.
std::optional<std::string> join(wire::ClientLink& link, const wire::Hello& hello, const std::atomic<bool>& stop,
                                Reporter& reporter, wire::Deadline deadline) {
  const auto began = Clock::now();
  auto next_hello = began;
  while (!stop) {
    if (!link.connected() && Clock::now() >= deadline) {
      throw PeerLost("master", "the master was found, but this slave could not connect to it");
    }
    if (link.connected() && Clock::now() >= next_hello) {
      link.send(Channel::control, {hello, {}}, Clock::now() + kTick);
      next_hello = Clock::now() + kHelloInterval;
    }
    const auto from = link.receive(Clock::now() + kTick);
    const std::string trouble = link.trouble();
    // ZeroMQ gives up a connection whose handshake failed, so only a new link can try again.
    if (!trouble.empty() && link.turned_away()) throw PeerLost("master", trouble + "; this slave keeps trying");
    if (!trouble.empty() && Clock::now() - began > reporter.quiet()) {
      reporter.trouble(trouble + "; this slave keeps trying");
    }
    if (!from) continue;
    if (const auto* welcome = std::get_if<wire::Welcome>(&from->envelope.message)) {
      link.send(Channel::data, {wire::Attach{hello.name}, {}}, Clock::now() + kTick);
      return welcome->run;
    }
    if (const auto* refused = std::get_if<wire::Refused>(&from->envelope.message)) {
      reporter.trouble("the master refuses this slave: " + refused->reason);
      next_hello = Clock::now() + 2s;
    }
  }
  return std::nullopt;
}

/// What a slave keeps from one run to the next.
struct Memory {
  StateCache cache;
  ImageStore images;
  Reporter reporter;
  bool same_bits;                                 ///< updates_to_same_bits(), of its device
  std::optional<wire::MasterSearch> search = {};  ///< where no address of a master is given
};

/// Serves one run. Returns false once `stop` is set. Sets `in_run` when the slave has joined the run.
bool serve_run(const SlaveOptions& options, Device& device, Memory& memory, const std::atomic<bool>& stop,
               wire::Network& network, bool& in_run) {
  Reporter& reporter = memory.reporter;
  auto& search = memory.search;
  const std::optional<std::string> master =
      search ? search->find(stop, [&](const std::string& why) { reporter.trouble(why); }) : options.master;
  if (!master) return false;
  if (search) reporter.trouble("found the master at " + *master);
  const std::unique_ptr<wire::ClientLink> made = network.connect(*master, {.join_key = options.key}, options.peer_port);
  wire::ClientLink& link = *made;
  const wire::Hello hello = hello_of(options, device.info(), memory.same_bits, memory.images.keeps_any(), link);
  const auto patience = search ? Clock::now() + kBeaconPatience : wire::Deadline::max();
  energy::RunEnergy energy(options.sampler, options.no_meter);
  const std::optional<std::string> run = join(link, hello, stop, reporter, patience);
  if (!run) return false;
  energy.end_idle();
  in_run = true;
  reporter.joined(fmt::format("joined the run of net {} as {}", *run, options.name));
  Session session(link, device, options.memory, memory.cache, &energy, options.times, &memory.images);
  const std::optional<std::string> reason = session.serve(stop, options.leave_patience, [&] {
    reporter.event("leaving: the master takes the shards back after this step; press Ctrl-C again to leave at once");
  });
  memory.images.save();
  if (!reason) {
    link.send(Channel::control, {wire::Bye{"stopped by its user"}, {}}, Clock::now() + kTick);
    return false;
  }
  reporter.event(stop ? fmt::format("left: {}", *reason)
                      : fmt::format("the run is over: {}{}", *reason, waiting(options)));
  return !stop;
}

}  // namespace

void serve(const SlaveOptions& options, Device& device, const std::atomic<bool>& stop, wire::Network& network) {
  const bool paced = device.info().paced;  // then weights have no meaning, and their transfer is what the run measures
  Memory memory{.cache = StateCache(options.cache, paced ? StateCache::Limits{0, 0} : StateCache::Limits()),
                .images = ImageStore(options.images, {.memory = options.keep_images, .disk = options.keep_images}),
                .reporter = Reporter(options),
                .same_bits = updates_to_same_bits(device)};
  memory.reporter.event(
      fmt::format("slave {}: {}; waiting for a master {}", options.name, device.info().description, place(options)));
  if (options.master.empty()) memory.search.emplace(*options.key);
  bool joined = false;
  while (!stop) {
    bool in_run = false;
    try {
      if (!serve_run(options, device, memory, stop, network, in_run)) return;
    } catch (const PeerLost& lost) {
      const std::string line = fmt::format("{}{}", lost.what(), waiting(options));
      if (in_run) {
        memory.reporter.event(line);
      } else {
        if (memory.search) memory.search->failed();
        memory.reporter.trouble(line);
      }
    }
    joined = joined || in_run;
    if (options.once && joined) return;
    // The master may be about to end, or another program may answer and break off every connection, so the slave waits.
    Clock::sleep_for(kHelloInterval);
  }
}

}  // namespace convoy
