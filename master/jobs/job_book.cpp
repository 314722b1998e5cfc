#include "master/jobs/job_book.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.hpp"
#include "master/report/csv.hpp"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kWords{std::pair(JobOutcome::finished, "finished"), std::pair(JobOutcome::failed, "failed"),
                            std::pair(JobOutcome::lost, "lost"), std::pair(JobOutcome::interrupted, "interrupted")};

/// JSON has no NaN; a null says that there is no such number.
Json or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

double or_nan(const Json& value) { return value.is_null() ? NAN : value.get<double>(); }

JobOutcome outcome_in(const Json& line) {
  const auto word = line.at("outcome").get<std::string>();
  for (const auto& [outcome, name] : kWords) {
    if (word == name) return outcome;
  }
  fail("its outcome is '{}'", printable(word, 40));
}

/// A field of an earlier release may be absent with `or_zero`.
double from_zero_on(const Json& line, const char* field, bool or_zero = false) {
  const double value = or_zero && !line.contains(field) ? 0.0 : line.at(field).get<double>();
  if (!(value >= 0.0 && value <= 1e15)) fail("its {} is negative or too large", field);
  return value;
}

std::string speed_text(const JobRow& row) {
  return row.images > 0 && row.seconds > 0.0 ? fmt::format("{:.0f}", static_cast<double>(row.images) / row.seconds)
                                             : "";
}

/// "a, b; failed: the reason"
std::string machines_and_fate(const JobRow& row) {
  std::string text = printable(fmt::format("{}", fmt::join(row.machines, ", ")), 200);
  if (row.outcome == to_word(JobOutcome::finished)) return text;
  if (!text.empty()) text += "; ";
  text += row.outcome;
  if (!row.why.empty()) text += fmt::format(": {}", printable(row.why, 300));
  return text;
}

}  // namespace

const char* to_word(JobOutcome outcome) {
  return std::ranges::find(kWords, outcome, &decltype(kWords)::value_type::first)->second;
}

std::string line_of(const JobPart& part) {
  Json line{{"job", part.job},
            {"machine", part.machine},
            {"outcome", to_word(part.outcome)},
            {"steps", part.steps},
            {"images", part.images},
            {"seconds", part.seconds},
            {"accuracy", or_null(part.accuracy)},
            {"loss", or_null(part.loss)}};
  if (part.image_bytes + part.image_bytes_kept > 0.0) {
    line["image_bytes"] = part.image_bytes;
    line["image_bytes_kept"] = part.image_bytes_kept;
  }
  if (!part.why.empty()) line["why"] = part.why;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

JobBook::JobBook(const std::string& folder, const JobList& list)
    : list_(list),
      lines_(folder + "/" + kBookOfJobs, {"list of jobs", "whose jobs are then trained again"},
             [this](const std::string& line) { take(line); }) {}

void JobBook::take(const std::string& text) {
  const Json line = Json::parse(text);
  JobPart part{.job = line.at("job").get<std::string>(),
               .machine = line.at("machine").get<std::string>(),
               .outcome = outcome_in(line),
               .steps = static_cast<long>(from_zero_on(line, "steps")),
               .images = static_cast<long>(from_zero_on(line, "images")),
               .seconds = from_zero_on(line, "seconds"),
               .accuracy = or_nan(line.at("accuracy")),
               .loss = or_nan(line.at("loss")),
               .image_bytes = from_zero_on(line, "image_bytes", true),
               .image_bytes_kept = from_zero_on(line, "image_bytes_kept", true),
               .why = line.value("why", "")};
  if (std::ranges::find(list_.jobs, part.job, &ListedJob::name) == list_.jobs.end()) {
    fail("there is no job '{}'", printable(part.job, 80));
  }
  if (finished(part.job)) fail("job {} has finished before", part.job);
  if (part.outcome == JobOutcome::finished && !(std::isfinite(part.accuracy) && std::isfinite(part.loss))) {
    fail("it is finished, but has no accuracy and loss");
  }
  parts_.push_back(std::move(part));
}

void JobBook::add(JobPart part) {
  lines_.add(line_of(part), fmt::format("the result of job {}", part.job));
  parts_.push_back(std::move(part));
}

bool JobBook::finished(const std::string& job) const {
  return std::ranges::any_of(
      parts_, [&](const JobPart& part) { return part.job == job && part.outcome == JobOutcome::finished; });
}

std::vector<JobRow> JobBook::rows() const {
  std::vector<JobRow> rows;
  for (const ListedJob& job : list_.jobs) {
    JobRow row{.job = job.name, .outcome = "waiting", .machines = {}, .why = {}};
    for (const JobPart& part : parts_) {
      if (part.job != job.name) continue;
      row.outcome = to_word(part.outcome);
      row.why = part.why;
      row.accuracy = part.accuracy;
      row.loss = part.loss;
      row.images += part.images;
      row.seconds += part.seconds;
      row.image_bytes += part.image_bytes;
      row.image_bytes_kept += part.image_bytes_kept;
      if (row.machines.empty() || row.machines.back() != part.machine) row.machines.push_back(part.machine);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> job_table(const std::vector<JobRow>& rows) {
  std::size_t longest = 4;
  for (const JobRow& row : rows) longest = std::max(longest, row.job.size());
  std::vector<std::string> lines{fmt::format("{:<{}}  {:>9}{:>9}{:>10}{:>9}  {}", "job", longest, "accuracy", "loss",
                                             "images/s", "seconds", "machines")};
  for (const JobRow& row : rows) {
    const bool tested = std::isfinite(row.accuracy);
    lines.push_back(fmt::format("{:<{}}  {:>9}{:>9}{:>10}{:>9.1f}  {}", row.job, longest,
                                tested ? fmt::format("{:.2f} %", 100.0 * row.accuracy) : "",
                                tested ? fmt::format("{:.4f}", row.loss) : "", speed_text(row), row.seconds,
                                machines_and_fate(row)));
  }
  return lines;
}

std::string to_csv(const std::vector<JobRow>& rows) {
  std::string csv =
      "job,outcome,machines,images,seconds,images_per_second,accuracy,loss,image_bytes,image_bytes_kept,why\n";
  for (const JobRow& row : rows) {
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(row.job), row.outcome,
                       csv_field(fmt::format("{}", fmt::join(row.machines, " "))), row.images, row.seconds,
                       speed_text(row), csv_number(row.accuracy), csv_number(row.loss), row.image_bytes,
                       row.image_bytes_kept, csv_field(row.why));
  }
  return csv;
}

}  // namespace convoy
