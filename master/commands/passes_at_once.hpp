// Passes of several nets over many images at the same time, each part of a pass on one machine, through the machinery
// of `convoy-master jobs`.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "master/commands/job_dispatcher.hpp"
#include "master/commands/member_pass.hpp"

namespace convoy {

/// Slaves compute a batch as this machine would alone, so that the outputs have the same bits on the same kind of
/// device. This machine computes parts, too. If there are fewer passes than slaves, each pass is divided into parts, so
/// that no slave is idle.
class PassesAtOnce : private JobDispatcher::Owner, private JobWatch {
 public:
  /// Of `cluster`, only the number of slaves and how they reach the master count. This machine computes `master_jobs`
  /// parts at the same time, each with an equal share of its threads. All references must outlive the object.
  PassesAtOnce(const ClusterOptions& cluster, const NetOptions& net, int master_jobs, const Observers& observers);

  /// Computes all passes. `done` is called in the caller's thread, for one pass after another in their order, once a
  /// pass and all before it are computed. Returns false if `stop` was set before the end. Throws Error naming the
  /// member if a pass fails.
  bool run(std::deque<MemberPass>& passes, const std::function<void(const MemberPass&)>& done,
           const std::atomic<bool>& stop);

 private:
  /// A part of a pass, and the job that computes it.
  struct Work {
    MemberPass& pass;
    MemberPass::Part part;
    const JobToDo* job = nullptr;
  };

  void divide(MemberPass& pass, int parts);
  void hand_on();
  RungEnd compute(Work& work, const TrainOptions& options, TrainingRun::Parts parts) const;

  void on_leave(JobToDo& job, const JobPart& part) override;
  void notice(const std::string& text) override { convoy::notice(observers_, text); }
  void timed(const std::vector<TimedMachine>& machines) override { notice(text_of(machines)); }
  void begin_job(const std::string& job, const std::string& machine, double seconds) override;
  void epoch(const std::string&, const EpochReport&) override {}
  void progress(const std::vector<RunningJob>&) override {}

  const ClusterOptions cluster_;
  NetOptions net_;
  const int master_jobs_;
  const Observers& observers_;
  std::list<Work> works_;  ///< in the order of the passes; those that were handed on are gone
  std::list<JobToDo> jobs_;
  std::function<void(const MemberPass&)> done_;
  std::string failure_;
  JobDispatcher* dispatcher_ = nullptr;  ///< while it runs
};

}  // namespace convoy
