#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/output.hpp"
#include "core/stop_signal.hpp"
#include "master/commands/job_machines.hpp"
#include "master/commands/jobs_options.hpp"
#include "master/commands/jobs_to_do.hpp"
#include "master/jobs/schedule.hpp"

namespace convoy {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// A job that is lost so often without a step in between has failed.
constexpr int kMostLossesOfAJob = 5;
/// How long a run waits for its slave, in seconds, which asks to join twice a second.
constexpr double kAwaitSlave = 15.0;

/// Wakes the thread that waits.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    bell_.notify_one();
  }
  void wait(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    bell_.wait_for(lock, most, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable bell_;
  bool rung_ = false;
};

/// One call of `convoy-master jobs`.
class JobsCommand {
 public:
  JobsCommand(const JobsOptions& options, std::string command_line)
      : options_(options),
        command_line_(std::move(command_line)),
        output_(make_jobs_output(options.train.net.format == "json")),
        list_(list_of(options)) {
    if (options.resume) open_book(options.train.out);
    jobs_ = prepare_jobs(options_, list_, [this](const std::string& job) { return book_ && book_->finished(job); });
    tell_of_data();
    if (options.resume) {
      write_jobs_options(folder_, options.train.given);
    } else {
      open_book(make_jobs_folder(options_, list_, jobs_));
    }
    for (JobToDo& job : jobs_) job.train_in(folder_);
  }

  int run() {
    const std::atomic<bool>& stop = catch_stop_signals();
    output_->begin({.jobs = jobs_.size(),
                    .done = static_cast<std::size_t>(std::ranges::count(jobs_, true, &JobToDo::over)),
                    .folder = folder_});
    if (!all_over()) {
      machines_ = std::make_unique<JobMachines>(options_, jobs_.front().options.net, measure(), *output_,
                                                [this] { bell_.ring(); });
      while (!(all_over() || stopping_) || any_run()) turn(stop);
      machines_->stop();
      if (fatal_) {
        write_table();
        std::rethrow_exception(fatal_);
      }
    }
    return end();
  }

 private:
  void open_book(const std::string& folder) {
    folder_ = folder;
    book_ = std::make_unique<JobBook>(folder, list_);
  }

  /// Each set of images once.
  void tell_of_data() const {
    std::set<const DataSet*> told;
    for (const JobToDo& job : jobs_) {
      if (!job.data || !told.insert(job.data.get()).second) continue;
      for (const std::string& text : job.data->notices) output_->notice(text);
    }
  }

  bool all_over() const { return std::ranges::all_of(jobs_, &JobToDo::over); }
  bool any_run() const {
    return std::ranges::any_of(machines_->all(), [](const JobMachine& each) { return each.run != nullptr; });
  }

  /// The net with the most operations that slaves can share, or else with the most.
  JobMachines::Measure measure() const {
    const auto worth = [](const JobToDo& job) { return std::pair(job.has_trunk, job.operations); };
    const JobToDo& job = *std::ranges::max_element(jobs_, {}, worth);
    return {.net = job.net, .cut = cut(job.net)};
  }

  void turn(const std::atomic<bool>& stop) {
    constexpr auto kTurn = std::chrono::milliseconds(200);
    if (stop) stop_all();
    if (!stopping_) machines_->look();
    for (JobMachine& machine : machines_->all()) {
      if (machine.run) take_news(machine);
    }
    if (!stopping_ && machines_->settled()) place();
    show();
    bell_.wait(kTurn);
  }

  void stop_all() {
    stopping_ = true;
    for (JobMachine& machine : machines_->all()) {
      if (machine.run) machine.run->stop();
    }
  }

  // ---- runs --------------------------------------------------------------------------------------------------------

  double predicted(const JobToDo& job, const JobMachine& machine) const {
    if ((machine.slave && !job.has_trunk) || job.unfit.contains(machine.name) || machine.speed <= 0.0) return kNever;
    return static_cast<double>(std::max(1L, job.steps - job.done)) * job.operations / machine.speed;
  }

  void place() {
    constexpr double kAtLeast = 1e-3;  // so that a machine that is about to end its job is not free yet
    const auto& machines = machines_->all();
    std::vector<double> busy;
    for (const JobMachine& machine : machines) {
      busy.push_back(machine.run ? std::max(machine.left, kAtLeast) : machines_->usable(machine) ? 0.0 : kNever);
    }
    std::vector<std::size_t> waiting;
    std::vector<std::vector<double>> seconds;
    for (std::size_t j = 0; j < jobs_.size(); ++j) {
      if (jobs_[j].over || jobs_[j].running) continue;
      waiting.push_back(j);
      seconds.emplace_back();
      for (const JobMachine& machine : machines) seconds.back().push_back(predicted(jobs_[j], machine));
    }
    const std::vector<PlacedJob> placed = longest_first(seconds, busy);
    for (const PlacedJob& each : placed) {
      if (each.from > 0.0) continue;
      begin(waiting[each.job], machines_->all()[each.machine], each.to);
    }
    if (placed.empty() && !waiting.empty() && !any_run()) tell_of_no_machine(waiting);
  }

  void begin(std::size_t index, JobMachine& machine, double seconds) {
    JobToDo& job = jobs_[index];
    JobRun::Parts parts{.options = options_on(job.options, job.net.training.batch, machine.slave),
                        .command_line = command_line_,
                        .data = job.data,
                        .line = machines_->line_to(machine),
                        .keys = machines_->keys()};
    std::error_code ignored;
    parts.options.resume = std::filesystem::exists(parts.options.out + "/config.yaml", ignored);
    job.running = true;
    machine.job = index;
    machine.left = seconds;
    // Where no machine was timed, nothing is known of its seconds.
    output_->begin_job(job.name, machine.name, options_.train.cluster.slaves > 0 ? seconds : kNever);
    machine.run = std::make_unique<JobRun>(std::move(parts), [this] { bell_.ring(); });
    told_of_no_machine_ = false;
  }

  void take_news(JobMachine& machine) {
    JobToDo& job = jobs_[machine.job];
    const std::optional<JobRunEnd> end = machine.run->end();
    JobNews news = machine.run->take_news();
    for (const std::string& text : news.notices) output_->notice(job.name + ": " + text);
    for (const EpochReport& each : news.epochs) output_->epoch(job.name, each);
    if (news.step) {
      machine.left = news.step->seconds_left;
      job.last = std::move(*news.step);
    }
    if (end) return take_end(machine, *end);
    if (!machine.run->joined() && machine.run->seconds() > kAwaitSlave) machine.run->stop();
  }

  void take_end(JobMachine& machine, const JobRunEnd& end) {
    JobToDo& job = jobs_[machine.job];
    machine.run.reset();
    job.running = false;
    job.last.reset();
    JobPart part{.job = job.name,
                 .machine = machine.name,
                 .outcome = end.outcome,
                 .steps = end.begun ? end.steps : job.done,
                 .images = end.begun ? (end.steps - end.first_step) * job.net.training.batch : 0,
                 .seconds = end.seconds,
                 .accuracy = end.accuracy,
                 .loss = end.loss,
                 .why = end.why};
    // A run that was to wait no longer for its slave ends as one that was interrupted.
    if (part.outcome == JobOutcome::interrupted && !stopping_) {
      part.outcome = JobOutcome::lost;
      part.why = "the slave did not come back";
    }
    settle(job, machine, part, end.unfit, end.gone || (part.outcome == JobOutcome::lost && !end.unfit));
    book_->add(part);
    output_->leave(part);
    write_table();
    if (end.fatal && !fatal_) fatal_ = end.fatal;
    if (fatal_) stop_all();
  }

  /// What follows from how a job left a machine. A job that nothing more can be done for has failed.
  void settle(JobToDo& job, JobMachine& machine, JobPart& part, bool unfit, bool gone) {
    const bool gained = part.steps > job.done;
    job.done = std::max(job.done, part.steps);
    if (gone) {
      machines_->lose(machine);
    } else {
      machine.seen = wire::Clock::now();
      machine.losses = 0;
    }
    if (part.outcome == JobOutcome::lost) {
      job.losses = gained ? 0 : job.losses + 1;
      job.why = part.why;
      if (unfit || !gained) job.unfit.insert(machine.name);
      if (job.losses >= kMostLossesOfAJob) {
        part.outcome = JobOutcome::failed;
        part.why =
            fmt::format("{} machines in a row were lost before its next step; the last: {}", job.losses, part.why);
      }
    }
    job.over = part.outcome == JobOutcome::finished || part.outcome == JobOutcome::failed;
  }

  /// Jobs wait, and nothing is under way: either no machine is there, or none can take them.
  void tell_of_no_machine(const std::vector<std::size_t>& waiting) {
    const bool any =
        std::ranges::any_of(machines_->all(), [this](const JobMachine& each) { return machines_->usable(each); });
    if (any) {
      for (const std::size_t j : waiting) fail_unplaceable(jobs_[j]);
    } else if (!std::exchange(told_of_no_machine_, true)) {
      output_->notice("no machine is there for the jobs that are left; start a slave with:");
      output_->notice(fmt::format("  {}", machines_->how_to_join()));
    }
  }

  void fail_unplaceable(JobToDo& job) {
    JobPart part{.job = job.name, .machine = "none", .outcome = JobOutcome::failed, .steps = job.done, .why = job.why};
    if (part.why.empty()) part.why = "slaves cannot train a net without convolutions; give --master-jobs 1";
    job.over = true;
    book_->add(part);
    output_->leave(part);
    write_table();
  }

  void show() {
    std::vector<RunningJob> running;
    for (const JobMachine& machine : machines_->all()) {
      if (!machine.run || !jobs_[machine.job].last) continue;
      const JobToDo& job = jobs_[machine.job];
      running.push_back({.job = job.name, .machine = machine.name, .steps = job.steps, .report = *job.last});
    }
    output_->progress(running);
  }

  // ---- the end -----------------------------------------------------------------------------------------------------

  void write_table() const { write_text(folder_ + "/jobs.csv", to_csv(book_->rows())); }

  int end() {
    const std::vector<JobRow> rows = book_->rows();
    write_table();
    const auto finished = static_cast<std::size_t>(std::ranges::count(rows, "finished", &JobRow::outcome));
    JobsEnd end{.how = "finished", .text = "all jobs have finished", .seconds = since_.seconds()};
    int code = kSuccess;
    if (!all_over()) {
      end.how = "interrupted";
      end.text = fmt::format("interrupted: {} of {} jobs have finished", finished, rows.size());
      code = kInterrupted;
    } else if (finished < rows.size()) {
      end.how = "failed";
      end.text = fmt::format("{} of {} jobs have failed", rows.size() - finished, rows.size());
      code = kFailure;
    }
    if (code != kSuccess) {
      end.go_on =
          fmt::format("{} jobs --resume {}", command_line_.substr(0, command_line_.find(' ')), shell_word(folder_));
    }
    output_->end(end, rows);
    return code;
  }

  const JobsOptions& options_;
  std::string command_line_;
  std::unique_ptr<JobsOutput> output_;
  JobList list_;
  std::string folder_;
  std::unique_ptr<JobBook> book_;
  std::vector<JobToDo> jobs_;
  Stopwatch since_;
  Bell bell_;  ///< is rung by the machines' threads
  bool stopping_ = false;
  bool told_of_no_machine_ = false;
  std::exception_ptr fatal_;
  std::unique_ptr<JobMachines> machines_;
};

}  // namespace

int jobs_command(const JobsOptions& options, const std::string& command_line) {
  go_on_without_output("the jobs go on, and jobs.jsonl in their folder tells how");
  return JobsCommand(options, command_line).run();
}

}  // namespace convoy
