#include "master/commands/passes_at_once.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "master/cluster/cluster_learner.hpp"

namespace convoy {
namespace {

/// A pass needs a forward pass alone, a third of the operations of a training step.
constexpr double kForwardPart = 1.0 / 3.0;

/// The options by which slaves are reached. Options that divide a net among slaves, or change its values, are left out.
ClusterOptions reached_as(const ClusterOptions& given) {
  ClusterOptions options;
  options.slaves = given.slaves;
  options.listen = given.listen;
  options.insecure = given.insecure;
  options.keys = given.keys;
  return options;
}

}  // namespace

PassesAtOnce::PassesAtOnce(const ClusterOptions& cluster, const NetOptions& net, int master_jobs,
                           const Observers& observers)
    : cluster_(reached_as(cluster)), net_(net), master_jobs_(master_jobs), observers_(observers) {
  net_.device = device_of_jobs(net);
}

bool PassesAtOnce::run(std::deque<MemberPass>& passes, const std::function<void(const MemberPass&)>& done,
                       const std::atomic<bool>& stop) {
  done_ = done;
  const auto count = static_cast<int>(passes.size());
  for (MemberPass& each : passes) divide(each, (cluster_.slaves + count - 1) / count);
  // The net with the most operations that slaves can share, or else with the most.
  const auto worth = [](const JobToDo& job) { return std::pair(job.has_trunk, job.operations); };
  const Net measured = std::ranges::max_element(jobs_, {}, worth)->net;
  JobDispatcher dispatcher({.cluster = cluster_,
                            .master_jobs = master_jobs_,
                            .net = net_,
                            .measure = {.net = measured, .cut = without_moments(cut(measured))},
                            .command_line = "",
                            .watch = *this,
                            .owner = *this},
                           jobs_);
  dispatcher_ = &dispatcher;
  dispatcher.run(stop);
  dispatcher_ = nullptr;
  if (!failure_.empty()) throw Error(failure_);
  return works_.empty();
}

void PassesAtOnce::divide(MemberPass& pass, int parts) {
  const int batches = pass.batches();
  parts = std::clamp(parts, 1, batches);
  TrainOptions options;
  options.net = net_;
  options.cluster = cluster_;
  options = for_one_job(std::move(options), master_jobs_);
  for (int i = 0; i < parts; ++i) {
    Work& work = works_.emplace_back(
        Work{.pass = pass, .part = {.next = batches * i / parts, .end = batches * (i + 1) / parts}});
    const std::string& name = pass.member().name;
    JobToDo job{.name = parts == 1 ? name : fmt::format("{}, part {} of {}", name, i + 1, parts),
                .options = options,
                .net = pass.member().net,
                .data = {}};
    job.work = [this, &work](const TrainOptions& options, TrainingRun::Parts with) {
      return compute(work, options, std::move(with));
    };
    job.steps = work.part.end - work.part.next;
    job.measure_net();
    job.operations *= kForwardPart;
    work.job = &jobs_.emplace_back(std::move(job));
  }
}

RungEnd PassesAtOnce::compute(Work& work, const TrainOptions& options, TrainingRun::Parts parts) const {
  const EnsembleMember& member = work.pass.member();
  const auto cluster = Cluster::assemble(options.cluster, options.net, member.net, member.cut, parts.observers,
                                         *parts.stop, *parts.door.network, parts.door.keys);
  if (!cluster) return {.interrupted = true};
  MemberPass::Part& part = work.part;
  const int first = part.next;
  const long before = work.job->steps - (part.end - part.next);  // steps that other machines have done
  for (const auto& observer : parts.observers) {
    RunStart start;
    start.first_step = before;
    start.plan = cluster->plan();
    observer->on_start(start);
  }
  ClusterLearner learner(*cluster, member.cut, member.net.training.batch);
  learner.load({member.weights});
  const Stopwatch watch;
  work.pass.compute(part, learner, *parts.stop, [&] {
    const int done = part.next + 1 - first;
    StepReport report;
    report.step = before + done;
    report.seconds_left = watch.seconds() / done * (part.end - part.next - 1);
    for (const auto& observer : parts.observers) observer->on_step(report);
  });
  const bool whole = part.next == part.end;
  cluster->dismiss(whole ? "the images are computed, and the master calls this slave again for others"
                         : "the master was interrupted");
  return {.interrupted = !whole, .tested = Evaluation(), .steps = before + part.next - first};
}

void PassesAtOnce::begin_job(const std::string& job, const std::string& machine, double seconds) {
  notice(std::isfinite(seconds) ? fmt::format("{} begins on {}, for about {:.1f} s", job, machine, seconds)
                                : fmt::format("{} begins on {}", job, machine));
}

void PassesAtOnce::on_leave(JobToDo& job, const JobPart& part) {
  if (part.outcome == JobOutcome::lost) {
    notice(fmt::format("{} lost {} ({}) after {} of {} batches, and goes on elsewhere", job.name, part.machine,
                       part.why, part.steps, job.steps));
  }
  if (part.outcome == JobOutcome::failed) {
    if (failure_.empty()) failure_ = fmt::format("{} failed on {}: {}", job.name, part.machine, part.why);
    dispatcher_->stop();
  }
  if (part.outcome == JobOutcome::finished) hand_on();
}

/// Hands on the passes at the front of which all parts are computed.
void PassesAtOnce::hand_on() {
  while (!works_.empty()) {
    MemberPass& pass = works_.front().pass;
    const auto of_pass = [&pass](const Work& each) { return &each.pass == &pass; };
    const bool computed =
        std::ranges::all_of(works_, [&](const Work& each) { return !of_pass(each) || each.job->over; });
    if (!computed) return;
    std::erase_if(works_, of_pass);
    done_(pass);
  }
}

}  // namespace convoy
