// What `convoy-master search` prints: text for people, or JSON lines for programs.
#pragma once

#include <memory>
#include <string>

#include "master/jobs/job_book.hpp"
#include "master/jobs/job_watch.hpp"
#include "master/jobs/next_job.hpp"

namespace convoy {

/// A search as it begins or goes on.
struct SearchStart {
  std::string net;
  std::string data;
  std::string folder;
  std::size_t done = 0;  ///< rungs that were finished before
  int at_once = 1;       ///< rungs that are under way at the same time
};

struct SearchEnd {
  std::string how;         ///< "finished", "interrupted" or "failed"
  std::string text;        ///< how it ended, as a sentence for people
  std::string train = {};  ///< the command that trains the net with the best setting; empty where there is none
  std::string go_on = {};  ///< the command that resumes the search; empty where nothing is left to do
  const RungResult* best = nullptr;  ///< null where no trial has a result
};

/// As a JobWatch, the output hears of the rungs that machines train side by side.
class SearchOutput : public JobWatch {
 public:
  virtual void begin(const SearchStart& start) = 0;
  /// A rung is begun, or chosen to begin when a machine is free; `steps` is the number of steps at its end.
  virtual void begin_rung(const Job& job, long steps) = 0;
  /// A step of the only rung that is trained.
  virtual void step(const StepReport& report) = 0;
  /// A machine that trained a rung was lost, and the rung goes on elsewhere.
  virtual void lose(const JobPart& part) = 0;
  virtual void finish_rung(const RungResult& result, bool is_best) = 0;
  virtual void end(const SearchEnd& end, const RungResults& results) = 0;
};

/// `json` chooses JSON lines. The references must outlive the output.
std::unique_ptr<SearchOutput> make_search_output(bool json, const Space& space, const Ladder& ladder);

}  // namespace convoy
