#include "master/commands/job_run.hpp"

#include <new>
#include <utility>

namespace convoy {

TrainOptions options_on(TrainOptions job, int batch, std::size_t slaves) {
  ClusterOptions& cluster = job.cluster;
  cluster.slaves = static_cast<int>(slaves);
  cluster.keep_images = slaves > 0;
  cluster.only_slaves = slaves > 0;
  if (slaves == 1) {
    cluster.shares = "1";
    cluster.exchange = "star";
    cluster.micro_batch = batch;
  }
  return job;
}

/// Watches the run in its thread.
class JobRun::Watcher : public Observer {
 public:
  explicit Watcher(JobRun& job) : job_(job) {}

  void on_start(const RunStart& start) override {
    const std::lock_guard lock(job_.mutex_);
    job_.begun_ = true;
    job_.first_step_ = job_.step_ = start.first_step;
    take_plan(start.plan);
    // The others tell how the slave joined.
    std::erase_if(job_.pending_, [this](const std::string& text) { return !tells_of_run(text); });
    release();
    job_.changed_();
  }
  void on_plan(const Plan& plan) override {
    const std::lock_guard lock(job_.mutex_);
    take_plan(plan);
  }
  void on_notice(const std::string& text) override {
    const std::lock_guard lock(job_.mutex_);
    if (job_.lost_) return;
    if (job_.pending_.empty()) job_.pending_since_ = {};
    job_.pending_.push_back(text);
  }
  void on_step(const StepReport& report) override {
    const std::lock_guard lock(job_.mutex_);
    job_.step_ = report.step;
    job_.news_.step = report;
    release();
  }
  void on_epoch(const EpochReport& report) override {
    const std::lock_guard lock(job_.mutex_);
    job_.news_.epochs.push_back(report);
    release();
    job_.changed_();
  }

 private:
  /// A run without its slaves would go on here, where other jobs are trained.
  void take_plan(const Plan& plan) {
    job_.members_ = plan.members;
    if (!job_.parts_.line || job_.lost_ || !is_master_alone(plan)) return;
    job_.lost_ = true;
    if (!job_.pending_.empty()) job_.why_lost_ = job_.pending_.front();
    job_.pending_.clear();
    job_.stop_ = true;
  }
  void release() { job_.release_notices(); }
  /// Whether a notice is about the run's own files, such as a damaged checkpoint.
  bool tells_of_run(const std::string& text) const {
    const std::string& folder = job_.parts_.options.out;
    return !folder.empty() && text.find(folder) != std::string::npos;
  }

  JobRun& job_;
};

JobRun::JobRun(Parts parts, std::function<void()> changed)
    : parts_(std::move(parts)), changed_(std::move(changed)), thread_([this] { run(); }) {}

JobRun::~JobRun() {
  stop();
  thread_.join();
}

bool JobRun::joined() const {
  const std::lock_guard lock(mutex_);
  return !parts_.line || parts_.line->absent().empty();
}

bool JobRun::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

/// Makes notices that were held back news.
void JobRun::release_notices() {
  for (std::string& text : std::exchange(pending_, {})) news_.notices.push_back(std::move(text));
}

JobNews JobRun::take_news() {
  // A run that waits, as for room on the disk at its end, takes no step that would show that it is not lost.
  constexpr double kHeldBack = 3.0;  // seconds
  const std::lock_guard lock(mutex_);
  if (begun_ && pending_since_.seconds() > kHeldBack) release_notices();
  return std::exchange(news_, {});
}

std::optional<JobRunEnd> JobRun::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

void JobRun::run() {
  JobRunEnd end = train();
  const std::lock_guard lock(mutex_);
  if (parts_.line) end.absent = parts_.line->absent();
  // Before others hear of the end: the slave may ask for the next job at once.
  parts_.line.reset();
  end.members = members_;
  end.begun = begun_;
  end.gone = lost_ || (end.outcome == JobOutcome::lost && !end.unfit);
  end.first_step = first_step_;
  if (begun_ && end.steps == 0) end.steps = step_;
  end.seconds = watch_.seconds();
  end_ = std::move(end);
  changed_();
}

JobRunEnd JobRun::train() {
  try {
    TrainingRun::Parts parts{.observers = {}, .data = parts_.data, .curves = false, .stop = &stop_};
    if (parts_.line) parts.door = {.network = parts_.line.get(), .keys = parts_.keys};
    parts.observers.push_back(std::make_unique<Watcher>(*this));
    if (parts_.work) {
      ready_ = true;
      return end_of(parts_.work(parts_.options, std::move(parts)));
    }
    TrainingRun run(parts_.options, parts_.command_line, std::move(parts));
    ready_ = true;
    return end_of(run.run_rung());
  } catch (const DeviceLost& error) {
    return {.outcome = JobOutcome::failed, .why = error.what(), .fatal = std::current_exception()};
  } catch (const BrokenInvariant& error) {
    return {.outcome = JobOutcome::failed, .why = error.what(), .fatal = std::current_exception()};
  } catch (const PeerLost& lost) {
    return {.outcome = JobOutcome::lost, .why = lost.what()};
  } catch (const std::bad_alloc&) {
    return {.outcome = JobOutcome::failed,
            .why =
                "the master's memory is full; give the job a smaller batch, or train fewer jobs at a time, with fewer "
                "slaves or a smaller --master-jobs"};
  } catch (const std::exception& error) {
    // Where the slave has no room for the net, another machine may have.
    const bool unfit = parts_.line && ready_ && !begun();
    return {.outcome = unfit ? JobOutcome::lost : JobOutcome::failed, .unfit = unfit, .why = error.what()};
  }
}

JobRunEnd JobRun::end_of(const RungEnd& rung) const {
  const std::lock_guard lock(mutex_);
  if (!rung.diverged.empty()) return {.outcome = JobOutcome::failed, .diverged = true, .why = rung.diverged};
  JobRunEnd end{.outcome = JobOutcome::finished, .steps = rung.steps, .images = rung.images};
  if (rung.interrupted) {
    end.outcome = lost_ ? JobOutcome::lost : JobOutcome::interrupted;
    end.why = lost_ ? why_lost_ : "";
  } else {
    end.accuracy = rung.tested->accuracy;
    end.loss = rung.tested->loss;
  }
  return end;
}

}  // namespace convoy
