// What `convoy-master jobs` prints: text for people, or JSON lines for programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "master/jobs/job_book.hpp"
#include "master/jobs/job_watch.hpp"

namespace convoy {

/// A list of jobs as its training begins or goes on.
struct JobsStart {
  std::size_t jobs = 0;
  std::size_t done = 0;  ///< jobs that were finished before
  std::string folder;
};

struct JobsEnd {
  std::string how;         ///< "finished", "failed" (some of the jobs) or "interrupted"
  std::string text;        ///< how it ended, as a sentence for people
  std::string go_on = {};  ///< the command that goes on; empty where nothing is left to do
  double seconds = 0.0;
};

class JobsOutput : public JobWatch {
 public:
  virtual void begin(const JobsStart& start) = 0;
  virtual void leave(const JobPart& part) = 0;
  virtual void end(const JobsEnd& end, const std::vector<JobRow>& rows) = 0;
};

std::unique_ptr<JobsOutput> make_jobs_output(bool json);

}  // namespace convoy
