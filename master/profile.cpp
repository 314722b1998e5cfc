#include "master/profile.hpp"

#include <algorithm>
#include <map>

#include "devices/calibrate.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

constexpr int kRepeats = 5;
/// A slave that needs longer than this for one timing (which stops early on slow devices) is of no use.
constexpr auto kCalibrationPatience = 120s;

/// Collects one Calibrated from each of the `awaited` slaves: seconds by slave.
std::map<std::size_t, double> collect_timings(Roster& roster, std::vector<std::size_t> awaited) {
  std::map<std::size_t, double> seconds;
  while (!awaited.empty()) {
    const auto [slave, envelope] = *roster.receive(awaited, kCalibrationPatience);
    const std::string& name = roster.slaves()[slave].name;
    if (const auto* failed = std::get_if<wire::Failed>(&envelope.message)) {
      fail("slave {} cannot compute the net: {}", name, failed->reason);
    }
    const auto* calibrated = std::get_if<wire::Calibrated>(&envelope.message);
    const auto place = std::find(awaited.begin(), awaited.end(), slave);
    if (calibrated == nullptr || place == awaited.end()) {
      throw PeerLost(name, fmt::format("slave {} broke the protocol: {} where Calibrated was due", name,
                                       wire::name_of(envelope.message)));
    }
    seconds[slave] = calibrated->seconds;
    awaited.erase(place);
  }
  return seconds;
}

bool holds(const MemberProfile& member, const ShardSpec& spec) {
  return member.memory == 0 ||
         shard_bytes(spec.stage, spec.filters.count, spec.batch, spec.input_gradient) <= member.memory;
}

}  // namespace

std::vector<MemberProfile> profile_members(Roster& roster, Device* own, std::size_t own_memory,
                                           const std::vector<Stage>& trunk, int batch) {
  std::vector<MemberProfile> profiles;
  const auto add = [&](const std::string& name, std::size_t memory, int block) {
    profiles.push_back({name, memory, block, std::vector<std::vector<Timing>>(trunk.size())});
  };
  for (const SlaveInfo& slave : roster.slaves()) add(slave.name, slave.memory, slave.filter_block);
  if (own != nullptr) add("master", own_memory, own->info().filter_block);

  const int timed_batch = calibration_batch(batch);
  const double scale = static_cast<double>(batch) / timed_batch;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    for (const int filters : calibration_filters(trunk[s])) {
      const ShardSpec spec{.stage = trunk[s], .filters = {0, filters}, .batch = timed_batch, .input_gradient = s > 0};
      std::vector<std::size_t> asked;
      for (std::size_t slave = 0; slave < roster.slaves().size(); ++slave) {
        if (!holds(profiles[slave], spec)) continue;
        asked.push_back(slave);
        roster.send(slave, {wire::Calibrate{.stage = spec.stage,
                                            .filters = static_cast<std::uint32_t>(filters),
                                            .batch = static_cast<std::uint32_t>(timed_batch),
                                            .input_gradient = spec.input_gradient,
                                            .repeats = kRepeats},
                            {}});
      }
      if (own != nullptr && holds(profiles.back(), spec)) {
        profiles.back().stages[s].push_back({filters, scale * time_shard(*own, spec, kRepeats)});
      }
      for (const auto& [slave, seconds] : collect_timings(roster, asked)) {
        profiles[slave].stages[s].push_back({filters, scale * seconds});
      }
    }
  }
  return profiles;
}

std::chrono::milliseconds patience_for(const Plan& plan, const std::vector<MemberProfile>& profiles) {
  constexpr double kMultiple = 20.0;
  if (profiles.empty()) return 10min;
  double longest = 0.0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const Assignment& shard : plan.stages[s].shards) {
      const auto member = static_cast<std::size_t>(shard.member);
      if (member >= profiles.size() || profiles[member].stages.empty()) continue;
      longest = std::max(longest, predict_seconds(profiles[member], s, shard.filters.count));
    }
  }
  return std::max<std::chrono::milliseconds>(30s,
                                             std::chrono::milliseconds(static_cast<long>(kMultiple * longest * 1e3)));
}

}  // namespace convoy
