// The options of a list of jobs that its folder keeps, so that `jobs --resume FOLDER` can read them.
#pragma once

#include <string>

#include "master/commands/options.hpp"
#include "master/commands/run_options.hpp"

namespace convoy {

/// The files of the jobs' folder that say what is trained. The nets are in the folder "nets".
inline constexpr const char* kListOfJobs = "jobs.yaml";
inline constexpr const char* kOptionsOfJobs = "options.json";

/// Defines --master-jobs: the number of `what`, such as "jobs", that this machine works on at the same time.
void define_master_jobs(CLI::App& command, int& master_jobs, const std::string& what);

/// Returns the first option given to a command that has no meaning if each net is computed by one machine, or would
/// make values depend on the machine; null if there is none.
const char* option_of_shared_nets(const CLI::App& command);

/// Writes options.json. Throws Error.
void write_jobs_options(const std::string& folder, const RunOptions& given);
/// Reads it. Throws Error naming the folder where it has no jobs.
RunOptions read_jobs_options(const std::string& folder);

}  // namespace convoy
