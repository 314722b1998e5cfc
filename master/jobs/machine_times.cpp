#include "master/jobs/machine_times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/stage.hpp"
#include "master/cluster/described_machines.hpp"
#include "master/cluster/gather.hpp"
#include "master/cluster/planning.hpp"

namespace convoy {

double step_operations(const Cut& cut, int batch) {
  double operations = head_flops(cut) * batch;
  for (const Stage& stage : cut.trunk) operations += conv_flops(stage, batch, stage.conv.filters);
  return 3.0 * operations;
}

namespace {

/// What messages and uneven shares cost a group of the `count` fastest members; nothing if the net does not fit into
/// them.
std::optional<double> slowdown_of(const TimedNet& what, const Calibration& timed, const MachineTimes& times,
                                  std::size_t count) {
  std::vector<MemberProfile> members = timed.members;
  const auto seconds = [&](const MemberProfile& member) { return times.slaves.at(member.name); };
  std::ranges::stable_sort(members, {}, seconds);
  members.resize(count);
  double speed = 0.0;
  for (const MemberProfile& each : members) speed += 1.0 / seconds(each);
  try {
    return speed * choose_plan(what.cut.trunk, what.batch, members, {}, timed.master).predicted.seconds;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

MachineTimes time_machines(const TimedNet& what, int count, const Observers& observers, const std::atomic<bool>& stop) {
  const std::unique_ptr<Device> device = make_device(what.net.device, what.net.device_options);
  const auto lobby = open_lobby(what.cluster, "jobs", device->info().paced, observers, what.network, what.keys);
  Crew crew(*lobby);
  if (!crew.gather(count, stop, [] {})) return {};
  const Work work{what.cluster, what.cut, what.batch, *device, place_of_heads(what.net, what.cut, what.batch, *device)};
  const Calibration timed = calibrate_members(work, crew, observers);
  // As the jobs are trained: see options_on() in job_run.cpp.
  const Wishes wishes{.exchange = Exchange::star, .micro_batches = 1, .layout = Layout::filters};
  MachineTimes times{.slaves = {}, .alone = timed.seconds_alone};
  for (const MemberProfile& member : timed.members) {
    double& seconds = times.slaves[member.name];
    try {
      seconds = choose_plan(what.cut.trunk, what.batch, {member}, wishes, timed.master).predicted.seconds;
    } catch (const Error&) {
      seconds = std::numeric_limits<double>::infinity();  // its memory cannot hold the net
    }
  }
  for (const int count : what.groups) {
    if (timed.members.size() < static_cast<std::size_t>(count)) continue;
    const auto slowdown = slowdown_of(what, timed, times, static_cast<std::size_t>(count));
    if (slowdown && std::isfinite(*slowdown)) times.slowdowns[count] = *slowdown;
  }
  crew.dismiss("the master has timed this slave, and calls it again for a job");
  return times;
}

}  // namespace convoy
