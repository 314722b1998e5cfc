#include "master/jobs/trial_book.hpp"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.hpp"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kOutcomes{std::pair(TrialOutcome::finished, "finished"),
                               std::pair(TrialOutcome::diverged, "diverged"),
                               std::pair(TrialOutcome::refused, "refused")};

/// A number of a line; NaN where it says null.
double number_or_nan(const Json& line, const char* field) {
  const Json& value = line.at(field);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

/// A whole number from 0 on.
template <class T>
T whole_number_of(const Json& line, const char* field) {
  const Json& value = line.at(field);
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) {
    fail("its {} is no whole number, or a negative or large one", field);
  }
  return value.get<T>();
}

TrialOutcome outcome_from(const std::string& word) {
  for (const auto& [outcome, name] : kOutcomes) {
    if (word == name) return outcome;
  }
  fail("its outcome is '{}'", printable(word, 40));
}

/// Throws Error or a JSON exception, neither of which names the line.
RungResult result_from(const Json& line, const Space& space) {
  RungResult result{.trial = whole_number_of<int>(line, "trial"),
                    .rung = whole_number_of<int>(line, "rung") - 1,
                    .setting = {},
                    .outcome = outcome_from(line.at("outcome").get<std::string>()),
                    .images = whole_number_of<long>(line, "images"),
                    .accuracy = number_or_nan(line, "accuracy"),
                    .loss = number_or_nan(line, "loss"),
                    .why = line.value("why", ""),
                    .seconds = line.at("seconds").get<double>(),
                    .machine = line.value("machine", "")};
  const Json& setting = line.at("setting");
  if (setting.size() != space.parameters.size())
    fail("it sets {} fields, not {}", setting.size(), space.parameters.size());
  for (const SearchedField& each : space.parameters) {
    result.setting.push_back(setting.at(each.name).get<std::string>());
    unit_of(each, result.setting.back());  // throws where the value is not of the range
  }
  const bool tested = std::isfinite(result.accuracy) && std::isfinite(result.loss);
  if (result.outcome == TrialOutcome::finished && !tested) fail("it is finished, but has no accuracy and loss");
  if (!(result.seconds >= 0.0)) fail("its seconds are negative");
  return result;
}

/// Throws Error unless the result is the first of the next trial, or follows that of the trial's rung before.
void expect_in_turn(const RungResult& result, const RungResults& before, const Ladder& ladder) {
  int trials = 0;
  const RungResult* last = nullptr;
  for (const RungResult& each : before) {
    trials = std::max(trials, each.trial);
    if (each.trial == result.trial) last = &each;
  }
  const bool next = last == nullptr ? result.trial == trials + 1 && result.rung == 0
                                    : result.rung == last->rung + 1 && last->outcome == TrialOutcome::finished &&
                                          last->setting == result.setting;
  if (!next || result.rung > ladder.top()) fail("rung {} of trial {} is out of turn", result.rung + 1, result.trial);
}

}  // namespace

std::string line_of(const Space& space, const RungResult& result) {
  Json setting = Json::object();
  for (std::size_t i = 0; i < space.parameters.size(); ++i) setting[space.parameters[i].name] = result.setting[i];
  Json line{{"trial", result.trial}, {"rung", result.rung + 1}, {"images", result.images}};
  for (const auto& [outcome, name] : kOutcomes) {
    if (result.outcome == outcome) line["outcome"] = name;
  }
  // JSON has no NaN; a null says that there is no such number, and the outcome why.
  line["accuracy"] = std::isfinite(result.accuracy) ? Json(result.accuracy) : Json();
  line["loss"] = std::isfinite(result.loss) ? Json(result.loss) : Json();
  line["setting"] = std::move(setting);
  if (!result.why.empty()) line["why"] = result.why;
  line["seconds"] = result.seconds;
  if (!result.machine.empty()) line["machine"] = result.machine;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TrialBook::TrialBook(const std::string& folder, const Space& space, const Ladder& ladder)
    : space_(space),
      ladder_(ladder),
      lines_(folder + "/trials.jsonl", {"search", "whose rungs are then trained again"},
             [this](const std::string& line) { take(line); }) {}

void TrialBook::take(const std::string& line) {
  RungResult result = result_from(Json::parse(line), space_);
  expect_in_turn(result, results_, ladder_);
  results_.push_back(std::move(result));
}

void TrialBook::add(RungResult result) {
  lines_.add(line_of(space_, result), fmt::format("the result of trial {}", result.trial));
  results_.push_back(std::move(result));
}

}  // namespace convoy
