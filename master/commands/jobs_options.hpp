// The options of a list of jobs that its folder keeps, so that `jobs --resume FOLDER` can read them.
#pragma once

#include <string>

#include "master/commands/run_options.hpp"

namespace convoy {

/// The files of the jobs' folder that say what is trained. The nets are in the folder "nets".
inline constexpr const char* kListOfJobs = "jobs.yaml";
inline constexpr const char* kOptionsOfJobs = "options.json";

/// Writes options.json. Throws Error.
void write_jobs_options(const std::string& folder, const RunOptions& given);
/// Reads it. Throws Error naming the folder where it has no jobs.
RunOptions read_jobs_options(const std::string& folder);

}  // namespace convoy
