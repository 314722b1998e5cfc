#include "master/jobs/search_output.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/output.hpp"
#include "core/stopwatch.hpp"
#include "core/text.hpp"
#include "master/jobs/trial_book.hpp"
#include "master/jobs/trial_report.hpp"
#include "master/report/live_lines.hpp"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

const char* method_name(Method method) {
  switch (method) {
    case Method::grid: return "grid";
    case Method::random: return "random";
    case Method::tpe: return "tpe";
  }
  return "";
}

/// "30 trials, 5000000 images, 2 hours"
std::string budget_text(const Budget& budget) {
  std::vector<std::string> bounds;
  if (budget.trials > 0) bounds.push_back(fmt::format("{} trials", budget.trials));
  if (budget.images > 0) bounds.push_back(fmt::format("{} images", budget.images));
  if (budget.hours > 0.0) bounds.push_back(fmt::format("{:g} hours", budget.hours));
  return bounds.empty() ? "the whole grid" : fmt::format("at most {}", fmt::join(bounds, ", "));
}

class SearchText : public SearchOutput {
 public:
  SearchText(const Space& space, const Ladder& ladder) : space_(space), ladder_(ladder), lines_(standard_output()) {}

  void begin(const SearchStart& start) override {
    lines_.line(fmt::format("search of net {} on data {}: {} parameters, method {}, {}", start.net, start.data,
                            space_.parameters.size(), method_name(space_.method), budget_text(space_.budget)));
    if (ladder_.top() > 0) {
      lines_.line(fmt::format("rungs: {} images; the best 1/{} of each go on", fmt::join(ladder_.images, ", "),
                              ladder_.factor));
    }
    if (start.at_once > 1) {
      lines_.line(fmt::format("{} trials at once, each on one machine", start.at_once));
    }
    if (start.done > 0) lines_.line(fmt::format("resuming after {} finished rungs", start.done));
    folder_ = start.folder;
  }
  void notice(const std::string& text) override { lines_.line(printable(text)); }
  void begin_rung(const Job& job, long steps) override {
    where_ = fmt::format("trial {}", job.trial);
    if (ladder_.top() > 0) where_ += fmt::format(", rung {}/{}", job.rung + 1, ladder_.top() + 1);
    steps_ = steps;
  }
  void step(const StepReport& report) override {
    if (!lines_.size() || (shown_ && since_.seconds() < lines_.output().seconds_between)) return;
    shown_ = true;
    since_.restart();
    lines_.show({fmt::format("{}  step {}/{}  loss {:.4f}  accuracy {:.1f} %  {:.0f} images/s", where_, report.step,
                             steps_, report.mean_loss, 100.0 * report.accuracy, report.images_per_second)});
  }
  void timed(const std::vector<TimedMachine>& machines) override { lines_.line(text_of(machines)); }
  void begin_job(const std::string&, const std::string&, double) override {}
  void epoch(const std::string&, const EpochReport&) override {}
  void progress(const std::vector<RunningJob>& running) override {
    if (running.empty() || !lines_.size() || (shown_ && since_.seconds() < lines_.output().seconds_between)) return;
    shown_ = true;
    since_.restart();
    std::vector<std::string> live;
    for (const RunningJob& each : running) live.push_back(text_of(each));
    lines_.show(live);
  }
  void lose(const JobPart& part) override {
    lines_.line(printable(fmt::format("{}: left {} after step {}, and goes on elsewhere: {}", part.job, part.machine,
                                      part.steps, part.why),
                          1000));
  }
  void finish_rung(const RungResult& result, bool is_best) override {
    lines_.line(rung_line(space_, ladder_, result) + (is_best ? "; the best so far" : ""));
  }
  void end(const SearchEnd& end, const RungResults& results) override {
    lines_.line(fmt::format("{}: {} rungs of {} trials, {} images", end.text, results.size(), trials_in(results),
                            images_of(results)));
    for (const std::string& line : best_table(space_, ladder_, results)) lines_.line(line);
    lines_.line("search folder: " + folder_);
    if (!end.train.empty()) lines_.line("train with the best setting: " + end.train);
    if (!end.go_on.empty()) lines_.line("go on with: " + end.go_on);
  }

 private:
  static int trials_in(const RungResults& results) {
    int trials = 0;
    for (const RungResult& each : results) trials = std::max(trials, each.trial);
    return trials;
  }

  const Space& space_;
  const Ladder& ladder_;
  LiveLines lines_;
  std::string folder_;
  std::string where_;  ///< the rung that is trained
  long steps_ = 0;     ///< at its end
  Stopwatch since_;
  bool shown_ = false;
};

class SearchJson : public SearchOutput {
 public:
  SearchJson(const Space& space, const Ladder& ladder) : space_(space), ladder_(ladder) {}

  void begin(const SearchStart& start) override {
    Json names = Json::array();
    for (const SearchedField& each : space_.parameters) names.push_back(each.name);
    put_line({{"event", "search"},
              {"net", start.net},
              {"data", start.data},
              {"folder", start.folder},
              {"method", method_name(space_.method)},
              {"metric", space_.metric == Metric::accuracy ? "accuracy" : "loss"},
              {"seed", space_.seed},
              {"parameters", names},
              {"rungs", ladder_.images},
              {"finished_rungs", start.done}});
  }
  void notice(const std::string& text) override { put_line({{"event", "notice"}, {"text", text}}); }
  void begin_rung(const Job& job, long steps) override {
    put_line({{"event", "begin"}, {"trial", job.trial}, {"rung", job.rung + 1}, {"steps", steps}});
  }
  void step(const StepReport&) override {}
  void timed(const std::vector<TimedMachine>& machines) override {
    for (const TimedMachine& each : machines) {
      put_line({{"event", "machine"}, {"machine", each.name}, {"gflops", each.gflops}});
    }
  }
  void begin_job(const std::string& job, const std::string& machine, double) override {
    put_line({{"event", "place"}, {"rung", job}, {"machine", machine}});
  }
  void epoch(const std::string&, const EpochReport&) override {}
  void progress(const std::vector<RunningJob>&) override {}
  void lose(const JobPart& part) override {
    put_line(
        {{"event", "lost"}, {"rung", part.job}, {"machine", part.machine}, {"steps", part.steps}, {"why", part.why}});
  }
  void finish_rung(const RungResult& result, bool is_best) override {
    Json line{{"event", "rung"}};
    line.update(Json::parse(line_of(space_, result)));
    line["best"] = is_best;
    put_line(line);
  }
  void end(const SearchEnd& end, const RungResults& results) override {
    Json line{{"event", "end"}, {"how", end.how}, {"rungs", results.size()}, {"images", images_of(results)}};
    if (end.how != "finished") line["text"] = end.text;
    if (end.best != nullptr) line["best"] = Json::parse(line_of(space_, *end.best));
    if (!end.train.empty()) line["train"] = end.train;
    if (!end.go_on.empty()) line["go_on"] = end.go_on;
    put_line(line);
  }

 private:
  static void put_line(const Json& json) {
    put(stdout, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  const Space& space_;
  const Ladder& ladder_;
};

}  // namespace

std::unique_ptr<SearchOutput> make_search_output(bool json, const Space& space, const Ladder& ladder) {
  if (json) return std::make_unique<SearchJson>(space, ladder);
  return std::make_unique<SearchText>(space, ladder);
}

}  // namespace convoy
