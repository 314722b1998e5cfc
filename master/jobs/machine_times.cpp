#include "master/jobs/machine_times.hpp"

#include <limits>

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
  crew.dismiss("the master has timed this slave, and calls it again for a job");
  return times;
}

}  // namespace convoy
