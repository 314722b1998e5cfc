// The list of jobs that `convoy-master jobs` trains, read from a YAML file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"

namespace convoy {

/// A training of the list.
struct ListedJob {
  std::string name;             ///< of its run folder, too
  std::string net;              ///< net file, as it was written
  Overrides set = {};           ///< FIELD=VALUE, as --set takes them, the epochs among them
  std::string data = "glyphs";  ///< data set, as it was written
  std::uint64_t seed = 1;
  int machines = 1;  ///< number of slaves that train the job together
  int line = 0;      ///< line in the file, counted from 1
};

struct JobList {
  std::string file;
  std::vector<ListedJob> jobs;
};

/// Reads a list of jobs. Throws Error naming file and line for every mistake that shows without the nets and the data.
JobList read_jobs(const std::string& file);
/// Reads a list from text. `file` is the name that errors give.
JobList parse_jobs(const std::string& text, const std::string& file);
/// A file that reads as the same list, with each job's fields written out.
std::string to_yaml(const JobList& list);

/// Where the list names a job, for errors: "jobs.yaml:7: job small".
std::string place_of(const JobList& list, const ListedJob& job);

}  // namespace convoy
