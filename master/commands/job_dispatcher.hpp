// Trains jobs side by side, each on one machine or on a group of slaves: places them on machines, follows their runs,
// and moves them elsewhere when machines are lost. The owner of the jobs decides which jobs there are, and takes their
// results.
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
    /// A job has left a machine, or no machine can take the job. job.over says whether the job has ended. The owner may
    /// add jobs, and remove jobs that are over.
    virtual void on_leave(JobToDo& job, const JobPart& part) = 0;
  };
  struct Parts {
    const ClusterOptions& cluster;
    int master_jobs = 1;    ///< number of jobs that this machine trains at the same time
    const NetOptions& net;  ///< options with which machines are timed
    JobMachines::Measure measure;
    std::string command_line;  ///< the command line that the user gave
    JobWatch& watch;
    Owner& owner;
  };
  /// All references must outlive the dispatcher.
  JobDispatcher(Parts parts, std::list<JobToDo>& jobs);

  /// Trains until all jobs are over or, once `stop` is set, until all runs have ended with a checkpoint. Throws what
  /// the owner throws, and the errors of this program and of its device.
  void run(const std::atomic<bool>& stop);
  /// Ends all runs after the step at hand, with checkpoints; no job begins any more.
  void stop();
  bool stopping() const { return stopping_; }

 private:
  /// Wakes a thread that waits for machines.
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
  Bell bell_;  ///< the threads of the machines ring it
  bool stopping_ = false;
  bool told_of_no_machine_ = false;
  std::exception_ptr fatal_;
  JobMachines machines_;
};

}  // namespace convoy
