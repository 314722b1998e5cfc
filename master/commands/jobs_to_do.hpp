// The jobs of a list with their nets and images, and the folder that keeps what they are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "master/commands/options.hpp"
#include "master/jobs/job_file.hpp"
#include "train/observer.hpp"

namespace convoy {

/// A job of the list, and how far it is.
struct JobToDo {
  std::string name;
  TrainOptions options;  ///< without slaves
  Net net;
  std::shared_ptr<const DataSet> data;  ///< null for a job that had finished before
  double operations = 0.0;              ///< of a step
  long steps = 0;                       ///< of all epochs
  bool has_trunk = false;               ///< whether it has convolutions, which slaves compute

  bool over = false;                    ///< whether it has finished or failed
  bool running = false;                 ///< whether a machine has it
  long done = 0;                        ///< steps that are known to be done
  int losses = 0;                       ///< machines that were lost in a row without a step in between
  std::set<std::string> unfit = {};     ///< machines that do not get it any more
  std::string why = {};                 ///< why a machine could not go on with it, the last time
  std::optional<StepReport> last = {};  ///< while a machine has it

  /// Sets the run folder and the net file, of which `folder`, that of all jobs, has a copy.
  void train_in(const std::string& folder);
};

/// Reads the list that the options name. Paths are as the user wrote them. Throws Error naming file and line.
JobList list_of(const JobsOptions& options);

/// Reads the nets of the jobs and opens their images, each set once. A job that `finished` needs no images. Throws Error naming
/// file, line and job for all that could not be trained.
std::vector<JobToDo> prepare_jobs(const JobsOptions& options, const JobList& list,
                                  const std::function<bool(const std::string& job)>& finished);

/// Makes the folder of new jobs, with all that it needs to be resumed, and returns it. Throws Error.
std::string make_jobs_folder(const JobsOptions& options, const JobList& list, const std::vector<JobToDo>& jobs);

}  // namespace convoy
