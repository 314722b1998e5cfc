// The results of jobs on disk: jobs.jsonl, to which a line is added whenever a job leaves a machine.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "master/jobs/job_file.hpp"
#include "master/jobs/line_book.hpp"

namespace convoy {

inline constexpr const char* kBookOfJobs = "jobs.jsonl";

/// How a job left a machine.
enum class JobOutcome : std::uint8_t {
  finished,
  failed,       ///< it cannot go on anywhere
  lost,         ///< the machine was lost, or could not take the job
  interrupted,  ///< by the user
};

const char* to_word(JobOutcome outcome);

/// What a job did on one machine.
struct JobPart {
  std::string job;
  std::string machine;
  JobOutcome outcome = JobOutcome::finished;
  long steps = 0;         ///< of the job when it left the machine, from its beginning on
  long images = 0;        ///< images that the machine has trained on
  double seconds = 0.0;   ///< of the job on the machine
  double accuracy = NAN;  ///< of the test images, where it finished
  double loss = NAN;
  double image_bytes = 0.0;       ///< bytes of the images that were sent to slaves
  double image_bytes_kept = 0.0;  ///< bytes of the images that slaves had already
  std::string why = {};           ///< empty where it finished
  bool diverged = false;          ///< with `failed`: whether training diverged; jobs.jsonl tells it by `why` alone
};

/// A job in the table at the end.
struct JobRow {
  std::string job;
  std::string outcome;                ///< to_word(), or "waiting" for a job that no machine has had
  std::vector<std::string> machines;  ///< machines that had the job, in order
  long images = 0;
  double seconds = 0.0;
  double accuracy = NAN;
  double loss = NAN;
  double image_bytes = 0.0;  ///< as those of JobPart
  double image_bytes_kept = 0.0;
  std::string why;
};

/// One line of jobs.jsonl, without its end.
std::string line_of(const JobPart& part);

/// Only one process at a time can have the book of a folder.
class JobBook {
 public:
  /// Opens `folder`/jobs.jsonl, or makes it; see LineBook. Throws Error for a line that is not one of these jobs.
  JobBook(const std::string& folder, const JobList& list);

  /// Adds a line and waits until it is on the disk. Throws Error.
  void add(JobPart part);
  bool finished(const std::string& job) const;
  /// A row for each job, in the order of the list.
  std::vector<JobRow> rows() const;

 private:
  void take(const std::string& line);

  const JobList& list_;
  std::vector<JobPart> parts_;
  LineBook lines_;
};

/// The rows as a table for people, a line each, with a head.
std::vector<std::string> job_table(const std::vector<JobRow>& rows);
/// The rows as jobs.csv.
std::string to_csv(const std::vector<JobRow>& rows);

}  // namespace convoy
