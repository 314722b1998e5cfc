// Tests the results of jobs on disk: what a reader finds again, and the lines that it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "core/files.hpp"
#include "master/jobs/job_book.hpp"
#include "tests/support/process.hpp"

namespace convoy {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

JobList two_jobs() { return parse_jobs("net: n.yaml\njobs: [{name: small}, {name: large}]\n", "j.yaml"); }

JobPart lost_part() {
  return {.job = "small",
          .machine = "a \"quoted\" one",
          .outcome = JobOutcome::lost,
          .steps = 40,
          .images = 2000,
          .seconds = 4.0,
          .image_bytes = 5000.0,
          .image_bytes_kept = 300.0,
          .why = "it is gone"};
}
JobPart finished_part() {
  return {.job = "small", .machine = "b", .steps = 120, .images = 4000, .seconds = 2.0, .accuracy = 0.75, .loss = 0.5};
}

TEST(JobBooks, KeepWhatEachMachineDid) {
  const TemporaryFolder folder;
  const JobList list = two_jobs();
  {
    JobBook book(folder.path(), list);
    EXPECT_EQ(book.rows()[0].outcome, "waiting");
    book.add(lost_part());
    EXPECT_FALSE(book.finished("small"));
    book.add(finished_part());
    EXPECT_THROW(JobBook(folder.path(), list), Error) << "two masters at a time";
  }
  std::ofstream(folder.path() + "/jobs.jsonl", std::ios::app) << R"({"job":"lar)";  // a master was killed
  JobBook book(folder.path(), list);
  EXPECT_TRUE(book.finished("small"));
  EXPECT_FALSE(book.finished("large"));
  const std::vector<JobRow> rows = book.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].outcome, "finished");
  EXPECT_THAT(rows[0].machines, ElementsAre("a \"quoted\" one", "b"));
  EXPECT_EQ(rows[0].images, 6000);
  EXPECT_DOUBLE_EQ(rows[0].seconds, 6.0);
  EXPECT_DOUBLE_EQ(rows[0].accuracy, 0.75);
  EXPECT_EQ(rows[0].why, "");
  EXPECT_EQ(rows[1].outcome, "waiting");
  book.add(
      {.job = "large", .machine = "b", .outcome = JobOutcome::failed, .steps = 3, .why = "training diverged, badly"});
  EXPECT_EQ(to_csv(book.rows()),
            "job,outcome,machines,images,seconds,images_per_second,accuracy,loss,image_bytes,image_bytes_kept,why\n"
            "small,finished,\"a \"\"quoted\"\" one b\",6000,6,1000,0.75,0.5,5000,300,\n"
            "large,failed,b,0,0,,,,0,0,\"training diverged, badly\"\n");
  const std::vector<std::string> table = job_table(book.rows());
  ASSERT_EQ(table.size(), 3U);
  EXPECT_THAT(table[1], AllOf(HasSubstr("small"), HasSubstr("75.00 %"), HasSubstr("0.5000"), HasSubstr("1000")));
  EXPECT_THAT(table[2], AllOf(HasSubstr("large"), HasSubstr("b; failed: training diverged, badly")));
}

TEST(JobBooks, RefuseLinesOfOtherJobs) {
  const JobList list = two_jobs();
  const auto error_of = [&](const std::string& text) -> std::string {
    const TemporaryFolder folder;
    write_text(folder.path() + "/jobs.jsonl", text);
    try {
      const JobBook book(folder.path(), list);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string line = line_of(finished_part());
    const std::size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to) + "\n";
  };
  const std::string good = line_of(finished_part()) + "\n";
  EXPECT_EQ(error_of(good), "");
  EXPECT_EQ(error_of(line_of(lost_part()) + "\n" + good), "");
  EXPECT_THAT(error_of(changed("small", "other")),
              AllOf(HasSubstr("jobs.jsonl:1"), HasSubstr("there is no job 'other'")));
  EXPECT_THAT(error_of(good + good), AllOf(HasSubstr("jobs.jsonl:2"), HasSubstr("has finished before")));
  EXPECT_THAT(error_of(changed("finished", "happy")), HasSubstr("its outcome is 'happy'"));
  EXPECT_THAT(error_of(changed("0.75", "null")), HasSubstr("no accuracy and loss"));
  EXPECT_THAT(error_of(changed("120", "-1")), HasSubstr("its steps is negative"));
  EXPECT_THAT(error_of("no JSON\n"), HasSubstr("jobs.jsonl:1"));
  EXPECT_THAT(error_of("{}\n"), HasSubstr("jobs.jsonl:1"));
}

}  // namespace
}  // namespace convoy
