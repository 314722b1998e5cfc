#include "master/report/record_observers.hpp"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "core/output.hpp"
#include "master/report/energy_json.hpp"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

Json times_json(const std::vector<MemberTime>& times) {
  Json rows = Json::array();
  for (const MemberTime& time : times) {
    rows.push_back({{"member", time.member},
                    {"compute", time.compute},
                    {"transfer", time.transfer},
                    {"wait", time.wait},
                    {"sent", time.sent},
                    {"received", time.received},
                    {"states_sent", time.states_sent},
                    {"states_received", time.states_received}});
  }
  return rows;
}

/// The power now, for each step.
Json power_json(const EnergyReport& report) {
  const EnergyTotal total = total_of(report);
  Json json{{"measured_members", total.measured}, {"members", total.members}};
  if (total.measured > 0) json.update({{"joules", total.joules}, {"watts", total.watts}});
  return json;
}

Json plan_json(const std::vector<Stage>& stages, const Plan& plan) {
  Json members = Json::array();
  const std::vector<double> shares = work_shares(stages, plan);
  for (std::size_t m = 0; m < plan.members.size(); ++m) {
    Json filters = Json::object();
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const Tile tile = tile_of(plan.stages[s], static_cast<int>(m));
      if (!tile.box().empty()) filters[stages[s].name] = tile.filters.count;
    }
    members.push_back({{"member", plan.members[m]}, {"share", shares[m]}, {"filters", filters}});
  }
  return members;
}

/// Turns each event into a JSON object and passes it to `sink`.
class JsonObserver : public Observer {
 public:
  JsonObserver(std::function<void(const std::string&)> sink, std::string paced)
      : sink_(std::move(sink)), paced_(std::move(paced)) {}

  void on_start(const RunStart& start) override {
    stages_ = start.stages;
    first_step_ = start.first_step;
    batch_ = start.batch;
    Json begun{{"event", "start"},
               {"net", start.net},
               {"folder", start.folder},
               {"data", start.data},
               {"device", start.device},
               {"parameters", start.parameters},
               {"batch", start.batch},
               {"epochs", start.epochs},
               {"training_images", start.training_images},
               {"test_images", start.test_images},
               {"first_step", start.first_step},
               {"members", plan_json(start.stages, start.plan)},
               {"plan", Json::parse(to_json(start.plan))}};
    for (const Plan& plan : start.other_replicas) begun["other_replicas"].push_back(Json::parse(to_json(plan)));
    put(std::move(begun));
  }
  void on_plan(const Plan& plan) override {
    put({{"event", "plan"}, {"members", plan_json(stages_, plan)}, {"plan", Json::parse(to_json(plan))}});
  }
  void on_notice(const std::string& text) override { put({{"event", "notice"}, {"text", text}}); }
  void on_step(const StepReport& report) override {
    Json step{{"event", "step"},
              {"epoch", report.epoch},
              {"step", report.step},
              {"loss", report.loss},
              {"mean_loss", report.mean_loss},
              {"accuracy", report.accuracy},
              {"images_per_second", report.images_per_second},
              {"seconds", report.seconds},
              {"seconds_left", report.seconds_left},
              {"learning_rate", report.learning_rate},
              {"times", times_json(report.times)},
              {"energy", power_json(report.energy)}};
    if (report.staleness) step["staleness"] = *report.staleness;
    put(std::move(step));
  }
  void on_epoch(const EpochReport& report) override {
    put({{"event", "epoch"},
         {"epoch", report.epoch},
         {"step", report.step},
         {"train_loss", report.train_loss},
         {"train_accuracy", report.train_accuracy},
         {"test_loss", report.test_loss},
         {"test_accuracy", report.test_accuracy},
         {"images_per_second", report.images_per_second},
         {"seconds", report.seconds},
         {"learning_rate", report.learning_rate},
         {"energy", energy_json(report.energy)}});
  }
  void on_checkpoint(const std::string& file, long step) override {
    put({{"event", "checkpoint"}, {"file", file}, {"step", step}});
  }
  void on_wrong_work(const WrongWork& wrong) override {
    Json json{{"event", "wrong_work"}, {"slave", wrong.slave}, {"what", wrong.what},
              {"stage", wrong.stage},  {"step", wrong.step},   {"tolerance", wrong.tolerance}};
    if (std::isfinite(wrong.error)) json["error"] = wrong.error;
    if (wrong.last_right > 0) json["last_right"] = wrong.last_right;
    put(json);
  }
  void on_end(const RunEnd& end) override {
    Json json{{"event", "end"},     {"how", end.how},         {"step", end.step},
              {"steps", end.steps}, {"seconds", end.seconds}, {"times", times_json(end.times)}};
    if (!end.text.empty()) json["text"] = end.text;
    if (end.best_epoch > 0) {
      json["best_epoch"] = end.best_epoch;
      json["best_accuracy"] = end.best_accuracy;
    }
    if (end.test_accuracy >= 0.0) json["test_accuracy"] = end.test_accuracy;
    if (end.staleness) json["staleness"] = {{"mean", end.staleness->mean}, {"most", end.staleness->most}};
    if (end.verified >= 0) json["verified"] = end.verified;
    if (!end.go_on.empty()) json["go_on"] = end.go_on;
    if (!end.energy.members.empty()) json["energy"] = summary_json(end);
    put(json);
  }

 private:
  Json summary_json(const RunEnd& end) const {
    const double images = static_cast<double>(end.step - first_step_) * batch_;
    return energy_json(end.energy, {.images = images, .seconds = end.seconds});
  }
  void put(Json json) {
    if (!paced_.empty()) json["paced"] = paced_;
    sink_(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::function<void(const std::string&)> sink_;
  std::string paced_;          ///< name of the device, where it is paced
  std::vector<Stage> stages_;  ///< stages of the run's net
  long first_step_ = 0;
  int batch_ = 0;
};

/// Where no member is measured, the joules are empty rather than 0.
std::string energy_columns(const EnergyReport& report) {
  const EnergyTotal total = total_of(report);
  const std::string joules = total.measured > 0 ? fmt::format("{:.6g},{:.3g}", total.joules, total.error) : ",";
  const auto where_any = [](double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; };
  const std::string readings =
      total.measured > 0 ? fmt::format("{},{},{:.3g}", total.wraps, total.gaps, total.gap_seconds) : ",,";
  return fmt::format("{},{},{},{},{},{}", joules, total.measured, total.members, where_any(total.declared),
                     where_any(total.assumed), readings);
}

/// A file to which lines are added. Where somebody has deleted it, the next line begins it anew.
class GrowingFile {
 public:
  /// `heading`: its first line, if it has one. Throws Error where the file cannot be written.
  GrowingFile(std::string name, std::string heading) : name_(std::move(name)), heading_(std::move(heading)) {
    begin();
    if (!stream_)
      fail("{}: the file cannot be written; check that the folder is writable and the disk is not full", name_);
  }

  /// Adds a line. If this fails, the run goes on, and the user is told once.
  void add(const std::string& line) {
    std::error_code ignored;
    if (!std::filesystem::exists(name_, ignored)) begin();
    stream_ << line << std::endl;
    if (stream_) return;
    stream_.clear();
    if (std::exchange(failed_, true)) return;
    put(stderr,
        fmt::format("convoy-master: {}: writing failed, and the run goes on; check that the folder is there and the "
                    "disk is not full\n",
                    name_));
  }

 private:
  void begin() {
    stream_.close();
    stream_.clear();
    stream_.open(name_, std::ios::app);
    if (stream_ && !heading_.empty() && stream_.tellp() == 0) stream_ << heading_ << std::endl;
  }

  std::string name_;
  std::string heading_;
  std::ofstream stream_;
  bool failed_ = false;
};

class FileObserver : public JsonObserver {
 public:
  FileObserver(const std::string& folder, const std::string& paced)
      : JsonObserver([this](const std::string& line) { events_.add(without_keys(line)); }, paced),
        mark_(paced.empty() ? "" : "," + paced),
        events_(folder + "/events.jsonl", ""),
        results_(folder + "/results.csv",
                 std::string(
                     "epoch,step,train_loss,train_accuracy,test_loss,test_accuracy,images_per_second,seconds,"
                     "learning_rate,joules,joules_error,measured_members,members,declared_joules,assumed_joules,wraps,"
                     "gaps,gap_seconds") +
                     (paced.empty() ? "" : ",paced")) {}

  void on_epoch(const EpochReport& report) override {
    JsonObserver::on_epoch(report);
    results_.add(fmt::format("{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.2f},{:.3f},{:g},{}{}", report.epoch, report.step,
                             report.train_loss, report.train_accuracy, report.test_loss, report.test_accuracy,
                             report.images_per_second, report.seconds, report.learning_rate,
                             energy_columns(report.energy), mark_));
  }

 private:
  /// Removes keys, because run folders are shown to others and anyone with the key may join.
  static std::string without_keys(const std::string& line) {
    static const std::regex key("(--key |CONVOY_KEY=)[0-9a-f]+");
    return std::regex_replace(line, key, "$1KEY");
  }

  std::string mark_;  ///< the last field of each row, where the device is paced
  GrowingFile events_;
  GrowingFile results_;
};

}  // namespace

std::unique_ptr<Observer> make_json_observer(std::FILE* to, const std::string& paced) {
  return std::make_unique<JsonObserver>([to](const std::string& line) { put(to, line + "\n"); }, paced);
}

std::unique_ptr<Observer> make_file_observer(const std::string& folder, const std::string& paced) {
  return std::make_unique<FileObserver>(folder, paced);
}

}  // namespace convoy
