#include "master/cluster/planning.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/cache_folder.hpp"
#include "devices/known_times.hpp"
#include "devices/registry.hpp"
#include "devices/same_bits.hpp"
#include "master/cluster/learned_power.hpp"
#include "master/cluster/master_times.hpp"
#include "master/cluster/profile.hpp"

namespace convoy {
namespace {

/// Returns the names of the slaves in the crew's order, then this machine's.
std::vector<std::string> members_of(const Work& work, const Crew& crew) {
  std::vector<std::string> members;
  for (const SlaveInfo& slave : crew.slaves()) members.push_back(slave.name);
  if (work.options.share) members.emplace_back(kMasterName);
  return members;
}

/// Returns whether each member's device updates to the same bits as others.
std::vector<bool> same_bits_of(const Work& work, const Crew& crew) {
  std::vector<bool> same;
  for (const SlaveInfo& slave : crew.slaves()) same.push_back(slave.same_bits);
  if (work.options.share) same.push_back(updates_to_same_bits(work.device));
  return same;
}

/// Returns the bytes that the device's shards may take beside the heads; 0: unlimited.
std::size_t own_memory(const Work& work) {
  const DeviceInfo& info = work.device.info();
  const std::size_t bytes = work.options.memory.empty() ? default_memory(info) : parse_memory(work.options.memory);
  const auto all = static_cast<std::size_t>(static_cast<double>(bytes) / info.memory_factor);
  const std::size_t heads = work.heads.device != nullptr ? head_bytes(work.cut, work.batch) : 0;
  return heads < all ? all - heads : all;  // the host computes heads that find no room
}

/// See calibrate_members().
Calibration calibrate(const Work& work, const Wishes& wishes, Crew& crew, const Calibration& known) {
  Calibration calibration = known;
  const bool first = known.stages.empty();
  // A user who asks for an exchange or a layout wants the slaves, whatever the times. --verify alone does not ask for
  // them.
  const bool asked = (wishes.exchange && (work.options.verify == 0 || !work.options.exchange.empty())) ||
                     wishes.layout != Layout::automatic || work.options.dense == DenseBy::members;
  const bool maybe_alone = first && work.alone && !asked && !crew.slaves().empty();
  std::map<std::string, MemberProfile> timed;
  for (const MemberProfile& member : known.members) timed[member.name] = member;
  const bool own = work.options.share && !timed.contains(kMasterName);
  const std::size_t memory = own || maybe_alone ? own_memory(work) : 0;
  std::vector<std::size_t> untimed;
  for (std::size_t slave = 0; slave < crew.slaves().size(); ++slave) {
    if (!timed.contains(crew.slaves()[slave].name)) untimed.push_back(slave);
  }
  KnownTimes known_here = known_times(work.device, cache_folder("times"));
  const std::vector<Stage>& trunk = work.sliced ? work.sliced->slices.cut.trunk : work.cut.trunk;
  Profiles profiles = profile_members(crew, untimed, work.device, known_here, own, memory, trunk, work.batch);
  for (MemberProfile& member : profiles.members) timed[member.name] = std::move(member);
  if (!untimed.empty()) {
    calibration.master.host = profiles.master;
    // The rate of slaves that join later was not measured together with that of the others.
    calibration.master.card = untimed.size() == crew.slaves().size() ? profiles.card : NodeLink{};
  }
  calibration.members.clear();
  for (const std::string& name : members_of(work, crew)) calibration.members.push_back(timed.at(name));
  const std::vector<bool> same_bits = same_bits_of(work, crew);
  for (std::size_t m = 0; m < same_bits.size(); ++m) calibration.members[m].same_bits = same_bits[m];
  // A slave that was timed may have come back with another --memory, or another device.
  for (std::size_t i = 0; i < crew.slaves().size(); ++i) {
    calibration.members[i].memory = crew.slaves()[i].memory;
    calibration.members[i].memory_factor = crew.slaves()[i].memory_factor;
  }
  if (first) {
    calibration.batch = work.batch;
    for (const Stage& stage : trunk) calibration.stages.push_back(stage.name);
    calibration.master.head = time_heads(work.cut, work.batch, work.heads, work.device, known_here);
    if (work.sliced) {
      calibration.sliced_head =
          time_heads(work.sliced->slices.cut, work.batch, work.sliced->heads, work.device, known_here);
    }
    if (maybe_alone) {
      calibration.seconds_alone =
          time_alone(work.cut, work.batch, work.device, known_here, memory, calibration.master.head);
    }
  }
  return calibration;
}

/// Tells the user of members that receive more than others, because of their devices.
void tell_of_unequal(const Plan& plan, const Observers& observers) {
  if (std::ranges::none_of(plan.stages, has_several_rows)) return;
  for (const int member : plan.unequal) {
    notice(observers,
           fmt::format("{} is sent weights instead of sums of gradients, because its device does not update them "
                       "to the same bits as others",
                       plan.members[member]));
  }
}

/// A plan of a file may come from a run with other devices, so the members at hand say how they update.
Planned as_fixed(const Work& work, const Crew& crew, const std::optional<FixedPlan>& known) {
  const std::vector<std::string> members = members_of(work, crew);
  const bool sliced = work.sliced && work.dense == DenseBy::members;
  const std::vector<Stage>& trunk = sliced ? work.sliced->slices.cut.trunk : work.cut.trunk;
  const FixedPlan fixed = known ? *known : FixedPlan(work.options, trunk, work.batch, members);
  Planned planned{.plan = fixed.for_members(members, trunk), .calibration = {}, .choice = {}, .fixed = fixed};
  planned.sliced = sliced;
  planned.plan.unequal = {};
  const std::vector<bool> same_bits = same_bits_of(work, crew);
  for (std::size_t m = 0; m < same_bits.size(); ++m) {
    if (!same_bits[m]) planned.plan.unequal.push_back(static_cast<int>(m));
  }
  return planned;
}

}  // namespace

std::vector<std::string> idle_members(const Planned& planned) {
  const bool time = planned.wishes.objective == Objective::time;
  const std::string energy = !planned.choice || !planned.choice->energy.tells() ? ""
                             : planned.wishes.terms.idle_off                    ? "; it is counted as switched off"
                                                                                : "; it is counted as idle";
  std::vector<std::string> idle;
  for (std::size_t m = 0; m < planned.plan.members.size(); ++m) {
    if (has_tiles(planned.plan, static_cast<int>(m))) continue;
    idle.push_back(fmt::format("{} gets no filters: with it a step would {}, or its memory is too small{}",
                               planned.plan.members[m], time ? "take longer" : "be worse by --objective", energy));
  }
  return idle;
}

Calibration calibrate_members(const Work& work, Crew& crew, const Observers& observers, const Calibration& known) {
  const std::vector<std::string> members = members_of(work, crew);
  const auto is_known = [&](const std::string& name) {
    return std::ranges::find(known.members, name, &MemberProfile::name) != known.members.end();
  };
  if (!std::ranges::all_of(members, is_known)) notice(observers, "timing the members on the net's stages");
  return calibrate(work, wishes_of(work.options, work.batch), crew, known);
}

Planned plan_members(const Work& work, Crew& crew, const Observers& observers, const Planned& before) {
  if (fixes_shares(work.options)) {
    Planned fixed = as_fixed(work, crew, before.fixed);
    tell_of_unequal(fixed.plan, observers);
    return fixed;
  }
  const Wishes wishes = wishes_of(work.options, work.batch);
  Planned planned{.plan = {},
                  .calibration = calibrate_members(work, crew, observers, before.calibration),
                  .choice = {},
                  .fixed = {},
                  .wishes = wishes};
  if (!work.options.power_from.empty()) take_power(planned.calibration, work.options.power_from);
  const Calibration& times = planned.calibration;
  const std::vector<std::string> unknown = energy_alone(1.0, times.members, times.master, wishes.terms).unknown;
  if (wishes.objective != Objective::time && !unknown.empty() && !before.calibration.stages.empty()) {
    // A newcomer does not end a run.
    notice(observers,
           fmt::format("the plan is chosen by time, since the watts of {} are not known", fmt::join(unknown, ", ")));
    planned.wishes.objective = Objective::time;
  }
  const DenseSlices* slices = work.sliced ? &work.sliced->slices : nullptr;
  FormChoice chosen = choose_form(work.cut, slices, times, planned.wishes, work.dense);
  planned.sliced = chosen.sliced;
  planned.choice = std::move(chosen.choice);
  planned.plan = planned.choice->plan;
  notice(observers,
         fmt::format(
             "plan: {}{}; a step takes about {:.3g} s{}", describe(planned.plan), planned.sliced ? kSharedDense : "",
             planned.choice->predicted.seconds,
             times.seconds_alone > 0.0 ? fmt::format(", on this machine alone {:.3g} s", times.seconds_alone) : ""));
  const std::string energy = describe(planned.choice->energy, planned.choice->predicted.seconds, work.batch);
  if (!energy.empty()) notice(observers, fmt::format("predicted energy: {}", energy));
  if (wishes.layout == Layout::samples && std::ranges::none_of(planned.plan.stages, has_several_rows)) {
    notice(
        observers,
        "--layout samples: members share filters all the same, because no two of them can share the samples: there is "
        "one member, or one is much faster than the others, or all filters of a stage do not fit in their memory");
  }
  for (const std::string& idle : idle_members(planned)) notice(observers, idle);
  tell_of_unequal(planned.plan, observers);
  return planned;
}

}  // namespace convoy
