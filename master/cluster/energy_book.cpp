#include "master/cluster/energy_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace convoy {
namespace {

constexpr std::size_t kLongestMeter = 200;
constexpr std::size_t kLongestReason = 500;

/// Adds what a slave of the same name told in another connection.
void join_sessions(MachineEnergy& sum, const MachineEnergy& more) {
  if (!sum.measured() || !more.measured()) {
    const std::string why = sum.measured() ? more.refusal : sum.refusal;
    sum = {.meter = more.meter, .scope = more.scope, .origin = more.origin};
    sum.refusal = fmt::format("not in all of the times that it was there: {}", why);
    return;
  }
  sum.seconds += more.seconds;
  sum.compute += more.compute;
  sum.transfer += more.transfer;
  sum.wait += more.wait;
  sum.compute_seconds += more.compute_seconds;
  sum.transfer_seconds += more.transfer_seconds;
  sum.wait_seconds += more.wait_seconds;
  sum.error = std::hypot(sum.error, more.error);
  sum.refresh = more.refresh;
  sum.wraps += more.wraps;
  sum.gaps += more.gaps;
  sum.gap_seconds += more.gap_seconds;
  sum.watts = more.watts;
  sum.idle_watts = more.idle_watts;
  sum.idle_error = more.idle_error;
}

}  // namespace

void EnergyBook::take(const std::string& id, const std::string& name, const MachineEnergy& energy) {
  MachineEnergy safe = energy;
  safe.meter = printable(energy.meter, kLongestMeter);
  safe.scope = printable(energy.scope, kLongestMeter);
  safe.origin = printable(energy.origin, kLongestMeter);
  safe.refusal = printable(energy.refusal, kLongestReason);
  const auto entry = std::ranges::find(entries_, id, &Entry::id);
  if (entry == entries_.end()) {
    entries_.push_back({id, {name, safe}});
  } else {
    entry->told.energy = safe;
  }
}

std::vector<MemberEnergy> EnergyBook::members() const {
  std::vector<MemberEnergy> members;
  for (const Entry& entry : entries_) {
    const auto known = std::ranges::find(members, entry.told.member, &MemberEnergy::member);
    if (known == members.end()) {
      members.push_back(entry.told);
    } else {
      join_sessions(known->energy, entry.told.energy);
    }
  }
  std::ranges::sort(members, {}, &MemberEnergy::member);
  return members;
}

}  // namespace convoy
