#include "master/commands/trials_at_once.hpp"

#include <algorithm>
#include <utility>

namespace convoy {
namespace {

std::string rung_name(const Ladder& ladder, const Job& job) {
  if (ladder.top() == 0) return fmt::format("trial {}", job.trial);
  return fmt::format("trial {}, rung {}/{}", job.trial, job.rung + 1, ladder.top() + 1);
}

}  // namespace

TrialsAtOnce::TrialsAtOnce(Parts parts) : parts_(std::move(parts)), device_(device_of_jobs(parts_.options.train.net)) {
  data_.put(parts_.data_options, parts_.net, parts_.data);
}

void TrialsAtOnce::run(const std::atomic<bool>& stop) {
  decide();
  if (jobs_.empty()) return;
  const NetOptions timing = jobs_.front().options.net;  // the job will be gone before machines that come late are timed
  JobDispatcher dispatcher({.cluster = parts_.options.train.cluster,
                            .master_jobs = parts_.options.master_jobs,
                            .net = timing,
                            .measure = {.net = parts_.net, .cut = cut(parts_.net)},
                            .command_line = parts_.command_line,
                            .watch = parts_.output,
                            .owner = *this},
                           jobs_);
  dispatcher_ = &dispatcher;
  dispatcher.run(stop);
  dispatcher_ = nullptr;
}

bool TrialsAtOnce::has_more() const {
  if (!open_.empty()) return true;
  return !parts_.is_out_of_time() && next_job(parts_.space, parts_.ladder, parts_.results).has_value();
}

/// Makes all decisions that the results allow. A trial that is refused has its result at once.
void TrialsAtOnce::decide() {
  do {
    while (decide_next()) {
    }
  } while (hand_on());
}

bool TrialsAtOnce::decide_next() {
  if (!failure_.empty() || (dispatcher_ != nullptr && dispatcher_->stopping()) || parts_.is_out_of_time()) return false;
  std::vector<Job> open;
  for (const Open& each : open_) open.push_back(each.job);
  const auto at_once = static_cast<std::size_t>(parts_.options.at_once);
  const std::optional<Job> job = next_job(parts_.space, parts_.ladder, parts_.results, open, at_once);
  if (job) begin(*job);
  return job.has_value();
}

void TrialsAtOnce::begin(const Job& job) {
  Open open{.job = job, .result = {}};
  Net net;
  try {
    net = parts_.runs.net_of(job);
  } catch (const Error& error) {
    open.result = refused_result(job, error.what());
    open_.push_back(std::move(open));
    return;
  }
  open.steps = parts_.runs.steps_at(net, job.rung);
  JobToDo to_do{.name = rung_name(parts_.ladder, job), .options = {}, .net = std::move(net), .data = {}};
  to_do.options = for_one_job(parts_.runs.options_of(job, open.steps), parts_.options.master_jobs);
  to_do.options.net.device = device_;
  to_do.data = data_.open(to_do.options.net, to_do.net);
  to_do.steps = open.steps;
  to_do.done = job.rung > 0 ? parts_.runs.steps_at(to_do.net, job.rung - 1) : 0;
  to_do.measure_net();
  parts_.output.begin_rung(job, open.steps);
  jobs_.push_back(std::move(to_do));
  open.to_do = &jobs_.back();
  open_.push_back(std::move(open));
}

/// Hands results on in their order. Returns whether there were any.
bool TrialsAtOnce::hand_on() {
  bool any = false;
  for (; !open_.empty() && open_.front().result; any = true) {
    RungResult result = std::move(*open_.front().result);
    open_.pop_front();
    parts_.add(std::move(result));
  }
  return any;
}

void TrialsAtOnce::on_leave(JobToDo& job, const JobPart& part) {
  Open& open = *std::ranges::find(open_, &job, &Open::to_do);
  open.seconds += part.seconds;
  if (part.outcome == JobOutcome::lost) parts_.output.lose(part);
  if (!job.over) return;
  if (part.outcome == JobOutcome::failed && !part.diverged) {
    if (failure_.empty()) failure_ = fmt::format("{} failed on {}: {}", job.name, part.machine, part.why);
    dispatcher_->stop();
    return;
  }
  open.result = result_of(open, job, part);
  open.to_do = nullptr;
  jobs_.remove_if([&](const JobToDo& each) { return &each == &job; });
  decide();
}

RungResult TrialsAtOnce::result_of(const Open& open, const JobToDo& job, const JobPart& part) const {
  RungResult result{.trial = open.job.trial, .rung = open.job.rung, .setting = open.job.setting};
  if (part.diverged) {
    result.outcome = TrialOutcome::diverged;
    result.why = part.why;
  } else {
    parts_.runs.expect_at(open.job, part.steps, open.steps);
    result.accuracy = part.accuracy;
    result.loss = part.loss;
  }
  result.images = part.steps * job.net.training.batch;
  result.seconds = open.seconds;
  result.machine = part.machine;
  return result;
}

}  // namespace convoy
