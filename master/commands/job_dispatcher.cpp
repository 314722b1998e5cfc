#include "master/commands/job_dispatcher.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "master/jobs/schedule.hpp"

namespace convoy {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// A job fails when so many machines in a row were lost without a step of the job in between.
constexpr int kMostLossesOfAJob = 5;
/// The seconds for which a run waits until its slave joins. A slave asks to join twice a second.
constexpr double kAwaitSlave = 15.0;

/// The machine and the others of its group.
std::vector<JobMachine*> machines_of_group(JobMachine& machine) {
  std::vector<JobMachine*> all{&machine};
  all.insert(all.end(), machine.others.begin(), machine.others.end());
  return all;
}

double predicted_seconds(const JobToDo& job, const JobMachine& machine) {
  if ((machine.slave && !job.has_trunk) || job.unfit.contains(machine.name) || machine.speed <= 0.0) return kNever;
  return static_cast<double>(std::max(1L, job.steps - job.done)) * job.operations / machine.speed;
}

/// Whether a slave of the group of `machine` is not there any more at the end of a run.
bool is_lost(const JobMachine& slave, const JobMachine& machine, const JobPart& part, const JobRunEnd& end) {
  const auto has = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, slave.name) != names.end();
  };
  const bool left = end.gone || (part.outcome == JobOutcome::lost && !end.unfit);
  if (machine.others.empty()) return left;
  // A group whose run was never planned has those slaves that have come. Others were lost if the last plan is without
  // them.
  if (end.members.empty()) return left && has(end.absent);
  return left || !has(end.members);
}

}  // namespace

void JobDispatcher::Bell::ring() {
  const std::lock_guard lock(mutex_);
  rung_ = true;
  bell_.notify_one();
}

void JobDispatcher::Bell::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  bell_.wait_for(lock, most, [this] { return rung_; });
  rung_ = false;
}

JobDispatcher::JobDispatcher(Parts parts, std::list<JobToDo>& jobs)
    : parts_(std::move(parts)),
      jobs_(jobs),
      machines_(parts_.cluster, parts_.master_jobs, parts_.net, parts_.measure, parts_.watch,
                [this] { bell_.ring(); }) {}

void JobDispatcher::run(const std::atomic<bool>& stop) {
  while (!(all_over() || stopping_) || any_run()) turn(stop);
  machines_.stop();
  if (fatal_) std::rethrow_exception(fatal_);
}

void JobDispatcher::stop() {
  stopping_ = true;
  for (JobMachine& machine : machines_.all()) {
    if (machine.run) machine.run->stop();
  }
}

bool JobDispatcher::all_over() const { return std::ranges::all_of(jobs_, &JobToDo::over); }

bool JobDispatcher::any_run() {
  return std::ranges::any_of(machines_.all(), [](const JobMachine& each) { return each.run != nullptr; });
}

void JobDispatcher::turn(const std::atomic<bool>& stop) {
  constexpr auto kTurn = std::chrono::milliseconds(200);
  if (stop) this->stop();
  if (!stopping_) machines_.look();
  for (JobMachine& machine : machines_.all()) {
    if (machine.run) take_news(machine);
  }
  if (!stopping_ && machines_.settled()) place();
  show();
  bell_.wait(kTurn);
}

void JobDispatcher::place() {
  constexpr double kAtLeast = 1e-3;  // so that a machine that is about to end its job is not free yet
  auto& machines = machines_.all();
  Placing placing;
  placing.slowdowns = machines_.slowdowns();
  for (const JobMachine& machine : machines) {
    placing.busy.push_back(machine.busy()              ? std::max(machine.seconds_left(), kAtLeast)
                           : machines_.usable(machine) ? 0.0
                                                       : kNever);
    placing.joins.push_back(machine.slave);
  }
  std::vector<JobToDo*> waiting;
  std::vector<std::vector<double>> seconds;
  for (JobToDo& job : jobs_) {
    if (job.over || job.running) continue;
    waiting.push_back(&job);
    placing.groups.push_back(static_cast<std::size_t>(job.machines));
    seconds.emplace_back();
    for (const JobMachine& machine : machines) seconds.back().push_back(predicted_seconds(job, machine));
  }
  const std::vector<PlacedJob> placed = place_longest_first(seconds, placing);
  for (const PlacedJob& each : placed) {
    if (each.from > 0.0) continue;
    JobMachine& machine = machines[each.machine];
    for (const std::size_t other : each.others) machine.others.push_back(&machines[other]);
    begin(*waiting[each.job], machine, each.to);
  }
  if (placed.empty() && !waiting.empty() && !any_run()) tell_of_no_machine(waiting);
}

void JobDispatcher::begin(JobToDo& job, JobMachine& machine, double seconds) {
  const std::size_t slaves = machine.slave ? 1 + machine.others.size() : 0;
  JobRun::Parts parts{.options = options_on(job.options, job.net.training.batch, slaves),
                      .command_line = parts_.command_line,
                      .data = job.data,
                      .line = machines_.line_to(machine),
                      .keys = machines_.keys(),
                      .work = job.work};
  std::error_code ignored;
  parts.options.resume = !job.work && std::filesystem::exists(parts.options.out + "/config.yaml", ignored);
  job.running = true;
  machine.job = &job;
  machine.left = seconds;
  for (JobMachine* each : machine.others) each->lent_to = &machine;
  // If no machine was timed, no time can be predicted.
  parts_.watch.begin_job(job.name, machine.label(), parts_.cluster.slaves > 0 ? seconds : kNever);
  machine.run = std::make_unique<JobRun>(std::move(parts), [this] { bell_.ring(); });
  told_of_no_machine_ = false;
}

void JobDispatcher::take_news(JobMachine& machine) {
  JobToDo& job = *machine.job;
  const std::optional<JobRunEnd> end = machine.run->end();
  JobNews news = machine.run->take_news();
  for (const std::string& text : news.notices) parts_.watch.notice(job.name + ": " + text);
  for (const EpochReport& each : news.epochs) parts_.watch.epoch(job.name, each);
  if (news.step) {
    machine.left = news.step->seconds_left;
    job.last = std::move(*news.step);
  }
  if (end) return take_end(machine, *end);
  // A run that has begun takes care of lost slaves itself.
  const bool waits = !machine.run->begun() && !machine.run->joined();
  if (waits && machine.run->seconds() > kAwaitSlave) machine.run->stop();
}

void JobDispatcher::take_end(JobMachine& machine, const JobRunEnd& end) {
  JobToDo& job = *machine.job;
  machine.run.reset();
  job.running = false;
  job.last.reset();
  JobPart part{.job = job.name,
               .machine = machine.label(),
               .outcome = end.outcome,
               .steps = end.begun ? end.steps : job.done,
               .images = end.begun ? (end.steps - end.first_step) * job.net.training.batch : 0,
               .seconds = end.seconds,
               .accuracy = end.accuracy,
               .loss = end.loss,
               .image_bytes = end.images.sent,
               .image_bytes_kept = end.images.kept,
               .why = end.why,
               .diverged = end.diverged};
  // A run that gave up waiting for its slave ends in the same way as an interrupted run.
  if (part.outcome == JobOutcome::interrupted && !stopping_) {
    part.outcome = JobOutcome::lost;
    part.why = fmt::format("{} did not come back",
                           end.absent.empty() ? "the slave" : fmt::format("{}", fmt::join(end.absent, ", ")));
  }
  settle(job, machine, part, end);
  machine.job = nullptr;
  for (JobMachine* each : std::exchange(machine.others, {})) each->lent_to = nullptr;
  parts_.owner.on_leave(job, part);
  if (end.fatal && !fatal_) fatal_ = end.fatal;
  if (fatal_) stop();
}

/// Notes how a job left a machine, and whether the job has ended.
void JobDispatcher::settle(JobToDo& job, JobMachine& machine, JobPart& part, const JobRunEnd& end) {
  const bool gained = part.steps > job.done;
  job.done = std::max(job.done, part.steps);
  for (JobMachine* each : machines_of_group(machine)) {
    if (is_lost(*each, machine, part, end)) {
      machines_.lose(*each);
    } else {
      each->seen = wire::Clock::now();
      each->losses = 0;
    }
  }
  if (part.outcome == JobOutcome::lost) {
    job.losses = gained ? 0 : job.losses + 1;
    job.why = part.why;
    for (const JobMachine* each : machines_of_group(machine)) {
      if (end.unfit || (!gained && is_lost(*each, machine, part, end))) job.unfit.insert(each->name);
    }
    if (job.losses >= kMostLossesOfAJob) {
      part.outcome = JobOutcome::failed;
      part.why = fmt::format("{} machines in a row were lost before its next step; the last: {}", job.losses, part.why);
    }
  }
  job.over = part.outcome == JobOutcome::finished || part.outcome == JobOutcome::failed;
}

/// Jobs wait, and no machine trains: there is no machine, or no machine can take any of the jobs.
void JobDispatcher::tell_of_no_machine(const std::vector<JobToDo*>& waiting) {
  const bool any =
      std::ranges::any_of(machines_.all(), [this](const JobMachine& each) { return machines_.usable(each); });
  if (any) {
    for (JobToDo* job : waiting) fail_unplaceable(*job);
  } else if (!std::exchange(told_of_no_machine_, true)) {
    parts_.watch.notice("no machine is there for the jobs that are left; start a slave with:");
    parts_.watch.notice(fmt::format("  {}", machines_.how_to_join()));
  }
}

void JobDispatcher::fail_unplaceable(JobToDo& job) {
  JobPart part{.job = job.name, .machine = "none", .outcome = JobOutcome::failed, .steps = job.done, .why = job.why};
  if (part.why.empty()) part.why = "slaves cannot train a net without convolutions; give --master-jobs 1";
  job.over = true;
  parts_.owner.on_leave(job, part);
}

void JobDispatcher::show() {
  std::vector<RunningJob> running;
  for (const JobMachine& machine : machines_.all()) {
    if (!machine.run || !machine.job->last) continue;
    const JobToDo& job = *machine.job;
    running.push_back({.job = job.name, .machine = machine.label(), .steps = job.steps, .report = *job.last});
  }
  parts_.watch.progress(running);
}

}  // namespace convoy
