// A job that a machine or a group of slaves is to train: its net, its images, and how far its training has come.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "data/dataset.hpp"
#include "master/commands/job_run.hpp"
#include "master/commands/options.hpp"
#include "train/observer.hpp"

namespace convoy {

struct JobToDo {
  std::string name;      ///< the job's name in texts for people
  TrainOptions options;  ///< the options of a training without slaves
  Net net;
  std::shared_ptr<const DataSet> data;  ///< the images of a training; null if the job had finished before
  JobWork work = {};                    ///< empty for a training
  double operations = 0.0;              ///< operations of a step
  long steps = 0;                       ///< steps of the whole job
  int machines = 1;                     ///< number of slaves that train the job together
  bool has_trunk = false;               ///< whether the net has convolutions, which slaves compute

  bool over = false;                    ///< whether the job has finished or failed
  bool running = false;                 ///< whether a machine trains the job now
  long done = 0;                        ///< steps that machines are known to have done
  int losses = 0;                       ///< machines lost in a row without a step of the job in between
  std::set<std::string> unfit = {};     ///< names of machines that may not get the job any more
  std::string why = {};                 ///< why the last machine could not go on with the job; may be empty
  std::optional<StepReport> last = {};  ///< the last step, while a machine trains the job

  /// Sets `operations` and `has_trunk`, which follow from the net.
  void measure_net();
};

/// Returns the options of the run of one job. If this machine trains `master_jobs` jobs at the same time, the run gets
/// an equal part of the machine's threads. The run has no meter, because a meter measures all jobs of the machine
/// together, and its config.yaml lists only options of a single run.
TrainOptions for_one_job(TrainOptions train, int master_jobs);

/// Returns the name of the device that the options choose. The fastest device is found once, before jobs make devices
/// slower, and all jobs take this device.
std::string device_of_jobs(const NetOptions& options);

/// The data sets that jobs have open. Jobs share a data set if its images are the same for both: images that the
/// program draws depend on the seed, and photographs on the net's input. A data set that no job uses any more is
/// closed.
class OpenedData {
 public:
  std::shared_ptr<const DataSet> open(const NetOptions& options, const Net& net);
  /// Adds a data set that was opened before.
  void put(const NetOptions& options, const Net& net, const std::shared_ptr<const DataSet>& data);

 private:
  using Key = std::tuple<std::string, std::uint64_t, int, int, int, int>;
  static Key key_of(const NetOptions& options, const Net& net);
  std::map<Key, std::weak_ptr<const DataSet>> opened_;
};

}  // namespace convoy
