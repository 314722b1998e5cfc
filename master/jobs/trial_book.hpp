// The results of a search on disk: trials.jsonl, to which a line is added for each finished rung. A rung is finished
// when its line is on the disk; what the search does next follows from the lines alone.
#pragma once

#include <string>

#include "master/jobs/asha.hpp"
#include "master/jobs/line_book.hpp"

namespace convoy {

/// One line of trials.jsonl, without its end.
std::string line_of(const Space& space, const RungResult& result);

/// Only one process at a time can have the book of a folder.
class TrialBook {
 public:
  /// Opens `folder`/trials.jsonl, or makes it. A last line without an end, which a killed master was about to write, is
  /// cut off. Throws Error naming the file and the line where a line is not one of this space and ladder, or is out of
  /// turn.
  TrialBook(const std::string& folder, const Space& space, const Ladder& ladder);

  const RungResults& results() const { return results_; }
  /// Adds a line and waits until it is on the disk. Throws Error.
  void add(RungResult result);

 private:
  void take(const std::string& line);

  const Space& space_;
  const Ladder& ladder_;
  RungResults results_;
  LineBook lines_;
};

}  // namespace convoy
