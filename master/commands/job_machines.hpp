// The machines that train a list of jobs: this one, and slaves that come and go. Slaves that come are timed first.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/stopwatch.hpp"
#include "master/commands/job_run.hpp"
#include "master/jobs/job_watch.hpp"
#include "master/jobs/machine_times.hpp"
#include "wire/beacon.hpp"

namespace convoy {

struct JobToDo;

/// A machine, or one of the equal parts of this machine, which trains one job at a time, alone or as one of a group.
struct JobMachine {
  std::string name;
  bool slave = true;
  double speed = 0.0;          ///< operations a second, by the net that was timed; 0 where it is not known yet
  int attempts = 0;            ///< timings that have failed
  int losses = 0;              ///< in a row
  wire::Deadline seen = {};    ///< when it was last known to be there
  wire::Deadline closed = {};  ///< it gets no job before
  std::unique_ptr<JobRun> run = {};
  JobToDo* job = nullptr;                ///< with `run`
  double left = 0.0;                     ///< with `run`, seconds until its end
  std::vector<JobMachine*> others = {};  ///< with `run`, the other slaves of the group that has the job
  const JobMachine* lent_to = nullptr;   ///< the slave that has the run of this slave's group

  bool busy() const { return run != nullptr || lent_to != nullptr; }
  /// The seconds until the machine is free, if it is busy.
  double seconds_left() const { return lent_to != nullptr ? lent_to->left : left; }
  /// The machine and the others of its group by name, for people: "a", or "a+b".
  std::string label() const;
};

class JobMachines {
 public:
  /// The net by which machines are timed.
  struct Measure {
    Net net;
    Cut cut;
    std::set<int> groups = {};  ///< numbers of slaves of the groups that jobs want
  };
  /// Listens for slaves if the options want any. This machine trains `master_jobs` jobs at the same time. `changed` is
  /// called in other threads when look() has something to do. All references must outlive the machines.
  JobMachines(const ClusterOptions& cluster, int master_jobs, const NetOptions& net, Measure measure, JobWatch& watch,
              std::function<void()> changed);
  ~JobMachines();
  JobMachines(const JobMachines&) = delete;
  JobMachines& operator=(const JobMachines&) = delete;

  /// Takes note of slaves that have come, and times them.
  void look();
  /// Whether the slaves that were asked for have come and were timed, so that the first job may begin.
  bool settled() const { return settled_; }
  /// No slave is timed any more.
  void stop();

  std::deque<JobMachine>& all() { return machines_; }
  /// See Placing::slowdowns.
  const std::map<std::size_t, double>& slowdowns() const { return slowdowns_; }
  /// Whether a machine can have a job now, or when the job at hand has ended.
  bool usable(const JobMachine& machine) const;
  /// Notes that the machine was lost in a run. A slave that is lost again and again gets no job for some minutes.
  void lose(JobMachine& machine) const;

  /// The line to a slave and the others of its group; null for this machine.
  std::unique_ptr<wire::Switchboard::Line> line_to(const JobMachine& machine);
  const std::shared_ptr<KeyRing>& keys() const { return keys_; }
  /// How to start a slave, as a line for people.
  std::string how_to_join() const;

 private:
  /// Some slaves that are timed in a thread of its own.
  struct Timing {
    std::vector<std::string> names;
    std::unique_ptr<wire::Switchboard::Line> line;
    std::atomic<bool> stop{false};
    std::atomic<bool> over{false};
    MachineTimes times;  ///< once it is over
    Stopwatch since;
    std::thread thread;
  };

  void listen();
  void greet();
  void begin_timing();
  void time(Timing& timing) const;
  void take_times();
  double slowest() const;

  const ClusterOptions& cluster_;
  const NetOptions& net_;
  const Measure measure_;
  JobWatch& watch_;
  const std::function<void()> changed_;
  std::shared_ptr<KeyRing> keys_;  ///< null without encryption
  std::optional<wire::Switchboard> board_;
  std::optional<wire::Beacon> beacon_;
  std::set<std::string> told_;  ///< of refusals
  bool settled_ = false;
  std::deque<JobMachine> machines_;
  std::map<std::size_t, double> slowdowns_;
  std::unique_ptr<Timing> timing_;
};

}  // namespace convoy
