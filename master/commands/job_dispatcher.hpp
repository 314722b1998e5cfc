// Trains jobs side by side, each on one machine: places them on machines, follows their runs, and moves them elsewhere when
// machines are lost. What a job is for and where its results go is up to the owner of the jobs.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "master/commands/job_machines.hpp"
#include "master/commands/job_to_do.hpp"

namespace convoy {

class JobDispatcher {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A job has left a machine, or no machine can take it; job.over says whether it has ended. The owner may add jobs, and
    /// remove jobs that are over.
    virtual void on_leave(JobToDo& job, const JobPart& part) = 0;
  };
  struct Parts {
    const ClusterOptions& cluster;
    int master_jobs = 1;    ///< that this machine trains at the same time
    const NetOptions& net;  ///< for the timing of machines
    JobMachines::Measure measure;
    std::string command_line;  ///< the user's
    JobWatch& watch;
    Owner& owner;
  };
  /// All references must outlive the dispatcher.
  JobDispatcher(Parts parts, std::list<JobToDo>& jobs);

  /// Trains until all jobs are over or, once `stop` is set, until all runs have ended with a checkpoint. Throws what the owner
  /// throws, and errors of this program or its device.
  void run(const std::atomic<bool>& stop);
  /// Ends all runs after the step at hand, with checkpoints; no job begins any more.
  void stop();
  bool stopping() const { return stopping_; }

 private:
  /// Wakes the thread that waits.
  class Bell {
   public:
    void ring();
    void wait(std::chrono::milliseconds most);

   private:
    std::mutex mutex_;
    std::condition_variable bell_;
    bool rung_ = false;
  };

  bool all_over() const;
  bool any_run();
  void turn(const std::atomic<bool>& stop);
  void place();
  void begin(JobToDo& job, JobMachine& machine, double seconds);
  void take_news(JobMachine& machine);
  void take_end(JobMachine& machine, const JobRunEnd& end);
  void settle(JobToDo& job, JobMachine& machine, JobPart& part, const JobRunEnd& end);
  void tell_of_no_machine(const std::vector<JobToDo*>& waiting);
  void fail_unplaceable(JobToDo& job);
  void show();

  const Parts parts_;
  std::list<JobToDo>& jobs_;
  Bell bell_;  ///< is rung by the machines' threads
  bool stopping_ = false;
  bool told_of_no_machine_ = false;
  std::exception_ptr fatal_;
  JobMachines machines_;
};

}  // namespace convoy
