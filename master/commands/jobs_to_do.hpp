// The jobs of a list with their nets and images, and the folder that keeps what they are.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "master/commands/job_to_do.hpp"
#include "master/jobs/job_file.hpp"

namespace convoy {

/// Reads the list that the options name. Paths are as the user wrote them. Throws Error naming file and line.
JobList list_of(const JobsOptions& options);

/// Reads the nets of the jobs and opens their images, each set once. A job that `finished` needs no images. Throws
/// Error naming file, line and job for all that could not be trained.
std::vector<JobToDo> prepare_jobs(const JobsOptions& options, const JobList& list,
                                  const std::function<bool(const std::string& job)>& finished);

/// Sets the run folder and the net file of a job, of which `folder`, that of all jobs, has a copy.
void train_in(const std::string& folder, JobToDo& job);

/// Makes the folder of new jobs, with all that it needs to be resumed, and returns it. Throws Error.
std::string make_jobs_folder(const JobsOptions& options, const JobList& list, const std::vector<JobToDo>& jobs);
/// Removes the files of jobs that have not begun, so that the same command can be given again, and the folder if
/// nothing else is in it.
void remove_jobs_folder(const std::string& folder, const std::list<JobToDo>& jobs);

}  // namespace convoy
