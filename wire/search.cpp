#include "wire/search.hpp"

#include <fmt/core.h>

#include <utility>

#include "core/clock.hpp"
#include "wire/handshakes.hpp"

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;

/// How many addresses are tried at once. Each attempt takes four file descriptors.
constexpr std::size_t kAtOnce = 48;
constexpr auto kTick = 200ms;
constexpr auto kTickWhileTrying = 20ms;
/// How many calls are read at most before the attempts are checked again.
constexpr int kMostCalls = 256;
/// One failure is no news: a master that is just ending may call and then refuse a connection.
constexpr int kFailuresToTell = 2;

constexpr const char* kNoCall =
    "no master broadcasts on this network: it may not run yet, may be on another network, or a firewall stops its "
    "broadcasts; if it runs, give its address: CONVOY_KEY=KEY convoy-slave tcp://HOST:PORT";

std::string of_another_key(const std::string& master) {
  return fmt::format(
      "a master broadcasts from {}, but it has another key than this slave; give the CONVOY_KEY that this master "
      "prints",
      master);
}

std::string of_nobody(const std::string& address) {
  return fmt::format(
      "broadcasts with the key of this slave's master come from addresses where no such master answers, such as {}: "
      "somebody sends false broadcasts, or a firewall blocks connections; this slave tries every address that "
      "broadcasts",
      address);
}

}  // namespace

struct MasterSearch::State {
  std::string stranger;  ///< the last master of another key
  std::optional<Clock::time_point> stranger_called;
  std::optional<Clock::time_point> ours_called;
  Clock::time_point judged = Clock::now();
  int failures = 0;
  std::string false_address;  ///< the last that failed
  bool told_none = false;
  bool told_stranger = false;
  bool told_false = false;
  bool told_refused = false;
};

MasterSearch::MasterSearch(JoinKey key, std::chrono::milliseconds patience)
    : key_(std::move(key)), patience_(patience) {}

void MasterSearch::failed() { candidates_.failed(last_, Clock::now()); }

std::optional<std::string> MasterSearch::find(const std::atomic<bool>& stop, const Report& report) {
  const CallListener listener;
  Handshakes handshakes(key_);
  State state;
  std::optional<std::string> found;
  while (!stop && !found) {
    hear(listener, handshakes.running() > 0 ? kTickWhileTrying : kTick, state);
    while (handshakes.running() < kAtOnce) {
      const auto address = candidates_.next(Clock::now());
      if (!address) break;
      handshakes.begin(*address);
    }
    for (const Handshakes::Result& each : handshakes.take()) {
      if (each.succeeded) {
        candidates_.found(each.endpoint);
        found = last_ = each.endpoint;
      } else {
        candidates_.failed(each.endpoint, Clock::now());
        if (each.refused.empty()) {
          ++state.failures;
          state.false_address = each.endpoint;
        } else if (report && !std::exchange(state.told_refused, true)) {
          report(each.refused + "; this slave keeps trying");
        }
      }
    }
    if (report) tell(report, state);
  }
  handshakes.settle();
  candidates_.give_up();
  return found;
}

/// Notes the calls that have come, or waits for one.
void MasterSearch::hear(const CallListener& listener, std::chrono::milliseconds tick, State& state) {
  for (int calls = 0; calls < kMostCalls; ++calls) {
    const auto heard = listener.next(calls == 0 ? tick : 0ms);
    if (!heard) return;
    const auto now = Clock::now();
    if (heard->call.key == key_.master) {
      candidates_.hear(heard->master, now);
      state.ours_called = now;
    } else {
      state.stranger = heard->master;
      state.stranger_called = now;
    }
  }
}

void MasterSearch::tell(const Report& report, State& state) const {
  if (state.failures >= kFailuresToTell && !std::exchange(state.told_false, true)) {
    report(of_nobody(state.false_address));
  }
  const auto now = Clock::now();
  if (now - state.judged < patience_) return;
  state.judged = now;
  const auto lately = [&](const auto& called) { return called && now - *called <= patience_; };
  if (lately(state.ours_called)) return;
  if (lately(state.stranger_called)) {
    if (!std::exchange(state.told_stranger, true)) report(of_another_key(state.stranger));
  } else if (!std::exchange(state.told_none, true)) {
    report(kNoCall);
  }
}

}  // namespace convoy::wire
