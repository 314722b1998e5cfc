// A job that is to be trained on one machine, with its net and images, and how far it is.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "data/dataset.hpp"
#include "master/commands/options.hpp"
#include "train/observer.hpp"

namespace convoy {

struct JobToDo {
  std::string name;      ///< for people
  TrainOptions options;  ///< without slaves
  Net net;
  std::shared_ptr<const DataSet> data;  ///< null for a job that had finished before
  double operations = 0.0;              ///< of a step
  long steps = 0;                       ///< at its end, counted from its beginning
  bool has_trunk = false;               ///< whether it has convolutions, which slaves compute

  bool over = false;                    ///< whether it has finished or failed
  bool running = false;                 ///< whether a machine has it
  long done = 0;                        ///< steps that are known to be done
  int losses = 0;                       ///< machines that were lost in a row without a step in between
  std::set<std::string> unfit = {};     ///< machines that do not get it any more
  std::string why = {};                 ///< why a machine could not go on with it, the last time
  std::optional<StepReport> last = {};  ///< while a machine has it

  /// Sets what follows from the net: the operations of a step, and whether slaves can compute it.
  void measure_net();
};

/// The options of a run for one of the jobs that share machines: its part of this machine's threads, where this machine trains
/// `master_jobs` jobs at the same time; no meter, because no reading is that of one job; and in `given` nothing of the other jobs.
TrainOptions for_one_job(TrainOptions train, int master_jobs);

/// The device that the options choose: the fastest, found once, before jobs make devices slower, so that all jobs have the same.
std::string device_of_jobs(const NetOptions& options);

/// Images by what they depend on: those that the program draws depend on the seed, and photographs on the net's input. Images
/// that no job has any more are given up.
class OpenedData {
 public:
  std::shared_ptr<const DataSet> open(const NetOptions& options, const Net& net);
  /// Takes note of images that are open already.
  void put(const NetOptions& options, const Net& net, const std::shared_ptr<const DataSet>& data);

 private:
  using Key = std::tuple<std::string, std::uint64_t, int, int, int, int>;
  static Key key_of(const NetOptions& options, const Net& net);
  std::map<Key, std::weak_ptr<const DataSet>> opened_;
};

}  // namespace convoy
