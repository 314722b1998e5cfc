#include "master/jobs/jobs_output.hpp"

#include <nlohmann/json.hpp>

#include "core/output.hpp"
#include "core/stopwatch.hpp"
#include "core/text.hpp"
#include "master/report/live_lines.hpp"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

std::string jobs_of(std::size_t count) { return count == 1 ? "1 job" : fmt::format("{} jobs", count); }

class JobsText : public JobsOutput {
 public:
  JobsText() : lines_(standard_output()) {}

  void begin(const JobsStart& start) override {
    folder_ = start.folder;
    lines_.line(fmt::format("{} in {}", jobs_of(start.jobs), start.folder));
    if (start.done > 0) lines_.line(fmt::format("resuming: {} finished before", jobs_of(start.done)));
  }
  void notice(const std::string& text) override { lines_.line(printable(text)); }
  void timed(const std::vector<TimedMachine>& machines) override { lines_.line(text_of(machines)); }
  void begin_job(const std::string& job, const std::string& machine, double seconds) override {
    lines_.line(printable(fmt::format("{}: on {}{}", job, machine,
                                      std::isfinite(seconds) ? fmt::format(", about {:.3g} s", seconds) : "")));
  }
  void epoch(const std::string& job, const EpochReport& report) override {
    lines_.line(fmt::format("{}: epoch {}: test accuracy {:.2f} %, loss {:.4f}; {:.0f} images/s", job, report.epoch,
                            100.0 * report.test_accuracy, report.test_loss, report.images_per_second));
  }
  void progress(const std::vector<RunningJob>& running) override {
    if (running.empty() || (shown_ && since_.seconds() < lines_.output().seconds_between)) return;
    shown_ = true;
    since_.restart();
    std::vector<std::string> live;
    for (const RunningJob& each : running) live.push_back(text_of(each));
    lines_.show(live);
  }
  void leave(const JobPart& part) override {
    std::string what;
    switch (part.outcome) {
      case JobOutcome::finished:
        what = fmt::format("finished on {}: accuracy {:.2f} %, loss {:.4f}, {:.1f} s", part.machine,
                           100.0 * part.accuracy, part.loss, part.seconds);
        break;
      case JobOutcome::failed: what = fmt::format("failed on {}", part.machine); break;
      case JobOutcome::lost:
        what = fmt::format("left {} after step {}, and goes on elsewhere", part.machine, part.steps);
        break;
      case JobOutcome::interrupted:
        what = fmt::format("interrupted on {} after step {}", part.machine, part.steps);
        break;
    }
    if (!part.why.empty()) what += ": " + part.why;
    lines_.line(printable(part.job + ": " + what, 1000));
  }
  void end(const JobsEnd& end, const std::vector<JobRow>& rows) override {
    lines_.line(fmt::format("{}; {:.1f} s", end.text, end.seconds));
    for (const std::string& line : job_table(rows)) lines_.line(line);
    lines_.line("folder of the jobs: " + folder_);
    if (!end.go_on.empty()) lines_.line("go on with: " + end.go_on);
  }

 private:
  LiveLines lines_;
  std::string folder_;
  Stopwatch since_;
  bool shown_ = false;
};

class JobsJson : public JobsOutput {
 public:
  void begin(const JobsStart& start) override {
    write({{"event", "jobs"}, {"jobs", start.jobs}, {"finished", start.done}, {"folder", start.folder}});
  }
  void notice(const std::string& text) override { write({{"event", "notice"}, {"text", text}}); }
  void timed(const std::vector<TimedMachine>& machines) override {
    for (const TimedMachine& each : machines) {
      write({{"event", "machine"}, {"machine", each.name}, {"gflops", each.gflops}});
    }
  }
  void begin_job(const std::string& job, const std::string& machine, double seconds) override {
    Json line{{"event", "begin"}, {"job", job}, {"machine", machine}};
    if (std::isfinite(seconds)) line["predicted_seconds"] = seconds;
    write(line);
  }
  void epoch(const std::string& job, const EpochReport& report) override {
    write({{"event", "epoch"},
           {"job", job},
           {"epoch", report.epoch},
           {"step", report.step},
           {"train_loss", report.train_loss},
           {"test_loss", report.test_loss},
           {"test_accuracy", report.test_accuracy},
           {"images_per_second", report.images_per_second}});
  }
  void progress(const std::vector<RunningJob>&) override {}
  void leave(const JobPart& part) override {
    Json line{{"event", "leave"}};
    line.update(Json::parse(line_of(part)));
    write(line);
  }
  void end(const JobsEnd& end, const std::vector<JobRow>& rows) override {
    Json table = Json::array();
    for (const JobRow& row : rows) {
      Json each{{"job", row.job},
                {"outcome", row.outcome},
                {"machines", row.machines},
                {"images", row.images},
                {"seconds", row.seconds},
                {"image_bytes", row.image_bytes},
                {"image_bytes_kept", row.image_bytes_kept}};
      if (std::isfinite(row.accuracy)) each.update(Json{{"accuracy", row.accuracy}, {"loss", row.loss}});
      if (!row.why.empty()) each["why"] = row.why;
      table.push_back(std::move(each));
    }
    Json line{{"event", "end"}, {"how", end.how}, {"seconds", end.seconds}, {"jobs", table}};
    if (end.how != "finished") line["text"] = end.text;
    if (!end.go_on.empty()) line["go_on"] = end.go_on;
    write(line);
  }

 private:
  static void write(const Json& json) { put(stdout, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }
};

}  // namespace

std::unique_ptr<JobsOutput> make_jobs_output(bool json) {
  if (json) return std::make_unique<JobsJson>();
  return std::make_unique<JobsText>();
}

}  // namespace convoy
