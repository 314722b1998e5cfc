#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/output.hpp"
#include "core/stop_signal.hpp"
#include "master/commands/job_dispatcher.hpp"
#include "master/commands/jobs_options.hpp"
#include "master/commands/jobs_to_do.hpp"
#include "master/jobs/jobs_output.hpp"

namespace convoy {
namespace {

/// One call of `convoy-master jobs`.
class JobsCommand : private JobDispatcher::Owner {
 public:
  JobsCommand(const JobsOptions& options, std::string command_line)
      : options_(options),
        command_line_(std::move(command_line)),
        output_(make_jobs_output(options.train.net.format == "json")),
        list_(list_of(options)) {
    if (options.resume) open_book(options.train.out);
    std::vector<JobToDo> jobs =
        prepare_jobs(options_, list_, [this](const std::string& job) { return book_ && book_->finished(job); });
    tell_of_data(jobs);
    if (options.resume) {
      write_jobs_options(folder_, options.train.given);
    } else {
      open_book(make_jobs_folder(options_, list_, jobs));
    }
    for (JobToDo& job : jobs) {
      train_in(folder_, job);
      jobs_.push_back(std::move(job));
    }
  }

  int run() {
    const std::atomic<bool>& stop = catch_stop_signals();
    output_->begin({.jobs = jobs_.size(),
                    .done = static_cast<std::size_t>(std::ranges::count(jobs_, true, &JobToDo::over)),
                    .folder = folder_});
    if (!all_over()) train_all(stop);
    return end();
  }

 private:
  void train_all(const std::atomic<bool>& stop) {
    std::optional<JobDispatcher> dispatcher;
    try {
      dispatcher.emplace(JobDispatcher::Parts{.cluster = options_.train.cluster,
                                              .master_jobs = options_.master_jobs,
                                              .net = jobs_.front().options.net,
                                              .measure = measure(),
                                              .command_line = command_line_,
                                              .watch = *output_,
                                              .owner = *this},
                         jobs_);
    } catch (const Error&) {
      // Nothing has begun, for example because the port is taken.
      if (!options_.resume) remove_jobs_folder(folder_, jobs_);
      throw;
    }
    dispatcher->run(stop);
  }

  void open_book(const std::string& folder) {
    folder_ = folder;
    book_ = std::make_unique<JobBook>(folder, list_);
  }

  /// Each set of images once.
  void tell_of_data(const std::vector<JobToDo>& jobs) const {
    std::set<const DataSet*> told;
    for (const JobToDo& job : jobs) {
      if (!job.data || !told.insert(job.data.get()).second) continue;
      for (const std::string& text : job.data->notices) output_->notice(text);
    }
  }

  bool all_over() const { return std::ranges::all_of(jobs_, &JobToDo::over); }

  /// The net with the most operations that slaves can share, or else with the most.
  JobMachines::Measure measure() const {
    const auto worth = [](const JobToDo& job) { return std::pair(job.has_trunk, job.operations); };
    const JobToDo& job = *std::ranges::max_element(jobs_, {}, worth);
    JobMachines::Measure measure{.net = job.net, .cut = cut(job.net)};
    for (const JobToDo& each : jobs_) {
      if (each.machines > 1) measure.groups.insert(each.machines);
    }
    return measure;
  }

  void on_leave(JobToDo&, const JobPart& part) override {
    book_->add(part);
    output_->leave(part);
    write_table();
  }

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
  std::list<JobToDo> jobs_;
  Stopwatch since_;
};

}  // namespace

int jobs_command(const JobsOptions& options, const std::string& command_line) {
  go_on_without_output("the jobs go on, and jobs.jsonl in their folder tells how");
  return JobsCommand(options, command_line).run();
}

}  // namespace convoy
