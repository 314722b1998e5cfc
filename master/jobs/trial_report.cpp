#include "master/jobs/trial_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/text.hpp"
#include "master/report/csv.hpp"

namespace convoy {
namespace {

const char* outcome_word(TrialOutcome outcome) {
  switch (outcome) {
    case TrialOutcome::finished: return "finished";
    case TrialOutcome::diverged: return "diverged";
    case TrialOutcome::refused: return "refused";
  }
  return "";
}

std::string figures(const RungResult& result) {
  return fmt::format("accuracy {:.2f} %, loss {:.4f}", 100.0 * result.accuracy, result.loss);
}

std::string rung_of(const Ladder& ladder, const RungResult& result) {
  return ladder.top() > 0 ? fmt::format("{}/{}", result.rung + 1, ladder.top() + 1) : "";
}

}  // namespace

std::vector<const RungResult*> best_of(const RungResults& results, Metric metric) {
  std::map<int, const RungResult*> last;
  for (const RungResult& each : results) last[each.trial] = &each;
  std::vector<const RungResult*> best;
  for (const auto& [trial, result] : last) {
    if (std::isfinite(cost_of(*result, metric))) best.push_back(result);
  }
  std::ranges::stable_sort(best, {}, [&](const RungResult* each) { return cost_of(*each, metric); });
  return best;
}

std::string rung_line(const Space& space, const Ladder& ladder, const RungResult& result) {
  const std::string rung = ladder.top() > 0 ? fmt::format(", rung {}", rung_of(ladder, result)) : "";
  const std::string setting = printable(text_of(space, result.setting));
  if (result.outcome != TrialOutcome::finished) {
    return fmt::format("trial {}{}: {} after {} images: {}; {}", result.trial, rung, outcome_word(result.outcome),
                       result.images, printable(result.why, 300), setting);
  }
  const std::string machine = result.machine.empty() ? "" : printable(" on " + result.machine);
  return fmt::format("trial {}{}: {} after {} images; {}; {:.0f} s{}", result.trial, rung, figures(result),
                     result.images, setting, result.seconds, machine);
}

std::vector<std::string> best_table(const Space& space, const Ladder& ladder, const RungResults& results,
                                    std::size_t most) {
  const auto best = best_of(results, space.metric);
  if (best.empty()) return {"no trial has a result yet"};
  std::vector<std::string> lines{fmt::format("{:>6}{:>6}{:>10}{:>11}{:>9}  {}", "trial", ladder.top() > 0 ? "rung" : "",
                                             "images", "accuracy", "loss", "setting")};
  for (std::size_t i = 0; i < std::min(most, best.size()); ++i) {
    const RungResult& each = *best[i];
    lines.push_back(fmt::format("{:>6}{:>6}{:>10}{:>9.2f} % {:>8.4f}  {}", each.trial, rung_of(ladder, each),
                                each.images, 100.0 * each.accuracy, each.loss,
                                printable(text_of(space, each.setting))));
  }
  return lines;
}

std::string to_csv(const Space& space, const RungResults& results) {
  std::string csv = "trial,rung,images,outcome,accuracy,loss,seconds";
  for (const SearchedField& each : space.parameters) csv += "," + csv_field(each.name);
  csv += "\n";
  for (const RungResult& each : results) {
    csv += fmt::format("{},{},{},{},{},{},{}", each.trial, each.rung + 1, each.images, outcome_word(each.outcome),
                       csv_number(each.accuracy), csv_number(each.loss), each.seconds);
    for (const std::string& value : each.setting) csv += "," + csv_field(value);
    csv += "\n";
  }
  return csv;
}

}  // namespace convoy
