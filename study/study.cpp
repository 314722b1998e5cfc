#include "study/study.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "core/files.hpp"
#include "core/output.hpp"
#include "energy/meters.hpp"
#include "energy/sampler.hpp"
#include "study/facts.hpp"
#include "study/report.hpp"
#include "study/stage_text.hpp"
#include "study/work.hpp"

namespace convoy::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kScript = "pareto.gnuplot";
constexpr const char* kPicture = "pareto.png";

Json json_of(const StudyOptions& options) {
  Json nets = Json::array();
  for (const auto& stages : options.nets) nets.push_back(text_of(stages));
  const DeviceOptions& device = options.device_options;
  return {{"devices", options.devices},
          {"threads", device.threads},
          {"tf32", device.tf32},
          {"fp16", device.fp16},
          {"bf16", device.bf16},
          {"meter", options.meter},
          {"stages", nets},
          {"batches", options.batches},
          {"trial_seconds", options.rules.trial_seconds},
          {"warm_up_seconds", options.rules.warm_up},
          {"interval", options.rules.interval},
          {"most_trials", options.rules.most_trials},
          {"most_seconds", options.rules.most_seconds},
          {"assumed_watts", options.rules.assumed_watts ? Json(*options.rules.assumed_watts)
                                                        : Json{{"absent", "--assume-watts was not given"}}}};
}

/// The meter of a device, or why there is none.
Json json_of(const energy::MemberMeter& meter) {
  if (!meter.row) return {{"absent", meter.why}};
  const energy::MeterInfo& info = meter.row->info;
  return {{"name", info.name},
          {"source", info.source},
          {"measures", info.device},
          {"scope", name_of(info.scope)},
          {"origin", name_of(info.origin)},
          {"quantity", info.quantity == energy::Quantity::joules ? "counter of joules" : "power"},
          {"averaging_seconds", info.averaging},
          {"observed_refresh_seconds", {{"absent", "no trial was measured"}}},
          {"wraps", 0},
          {"gaps", 0},
          {"gap_seconds", 0.0},
          {"error_by_maker", info.spec > 0 ? Json(info.spec) : Json{{"absent", "the maker states none"}}}};
}

/// Adds what the readings of a row's trials were like to the meter of the manifest.
void add_readings(const Result& result, Json& meter) {
  if (result.refresh > 0) meter["observed_refresh_seconds"] = result.refresh;
  for (const Trial& trial : result.trials) {
    meter["wraps"] = meter["wraps"].get<int>() + trial.wraps;
    meter["gaps"] = meter["gaps"].get<int>() + trial.gaps;
    meter["gap_seconds"] = meter["gap_seconds"].get<double>() + trial.gap_seconds;
  }
}

/// The reason of a row's lines in the table (table_row).
std::string reason_of(const Row& row) { return row.device + row.result.refusal + row.result.no_idle; }

/// A study while it runs.
class Study {
 public:
  Study(const StudyOptions& options, const energy::Machine& machine, const std::atomic<bool>& stop)
      : options_(options), machine_(machine), stop_(stop) {
    std::error_code fault;
    std::filesystem::create_directories(options.out, fault);
    if (fault) fail("{}: the folder cannot be created: {}; give another with --out", options.out, fault.message());
    manifest_ = {{"program", options.program},
                 {"version", CONVOY_VERSION},
                 {"state", "running"},
                 {"options", json_of(options)},
                 {"machine", machine_facts(machine)},
                 {"start", state_facts(machine)},
                 {"end", {{"absent", "the study has not ended"}}},
                 {"devices", Json::array()}};
    write();
  }

  void run() {
    put(stdout, table_head());
    for (const std::string& device : options_.devices) {
      if (!stop_) study(device);
    }
    manifest_["state"] = stop_ ? "interrupted" : "complete";
    manifest_["end"] = state_facts(machine_);
    write();
    put(stdout, draw());
  }

 private:
  energy::MemberMeter meter_for(const std::string& device) const {
    if (options_.meter == "none") return {.row = std::nullopt, .why = "measuring was turned off with --meter none"};
    return energy::meter_for_member(machine_, options_.meter, is_gpu(device));
  }

  void study(const std::string& name) {
    const auto device = make_device(name, options_.device_options);
    if (device->info().paced) fail("device {} computes nothing, so it has no energy to study; choose another", name);
    energy::MemberMeter found = meter_for(device->info().name);
    manifest_["devices"].push_back({{"device", device->info().name},
                                    {"description", device->info().description},
                                    {"meter", json_of(found)},
                                    {"start", state_facts(machine_)},
                                    {"end", {{"absent", "the study has not ended on this device"}}}});
    write();
    std::optional<energy::Sampler> sampler;
    std::optional<energy::MeterInfo> info;
    StudyMeter meter{.look = {}, .why = found.why};
    if (found.row) {
      info = found.row->info;
      sampler.emplace(std::move(*found.row));
      meter.look = [&](const std::function<void(energy::Record&)>& look) { sampler->look(look); };
    }
    Idle idle = measure_idle(meter, options_.rules, stop_);
    for (const auto& stages : options_.nets) {
      for (const int batch : options_.batches) {
        if (stop_) break;
        Row row{
            .device = device->info().name, .batch = batch, .filters = filters_of(stages), .meter = info, .result = {}};
        row.result = result_of(*device, stages, batch, meter, idle);
        if (info) add_readings(row.result, manifest_["devices"].back()["meter"]);
        rows_.push_back(std::move(row));
        write();
        put(stdout, table_row(rows_.back(),
                              rows_.size() == 1 || reason_of(rows_.back()) != reason_of(rows_[rows_.size() - 2])));
      }
    }
    manifest_["devices"].back()["end"] = state_facts(machine_);
  }

  /// Measures a row. `idle` is the idle power before it, and then that after it.
  Result result_of(Device& device, const std::vector<Stage>& stages, int batch, const StudyMeter& meter, Idle& idle) {
    Result result;
    try {
      const Work work = work_of(device, stages, batch, default_memory(device.info()));
      result = measure(work, meter, options_.rules, stop_);
    } catch (const DeviceLost&) {
      throw;
    } catch (const Error& error) {
      result.refusal = error.what();
      return result;
    }
    Idle after = stop_ ? Idle{.watts = std::nullopt, .refusal = "it was interrupted"}
                       : measure_idle(meter, options_.rules, stop_);
    take_off_idle(result, idle, after);
    idle = std::move(after);
    return result;
  }

  void write() const {
    write_text(options_.out + "/manifest.json", manifest_.dump(2) + "\n");
    write_text(options_.out + "/study.csv", csv_of(rows_));
    write_text(options_.out + "/trials.csv", trials_csv_of(rows_));
  }

  /// Draws the plot, and returns a sentence about the files.
  std::string draw() const {
    const std::string script = plot_of(rows_, kPicture);
    const std::string files = fmt::format("{}/: study.csv, trials.csv, manifest.json", options_.out);
    if (script.empty()) return fmt::format("{}; no energy is known, so there is nothing to plot\n", files);
    write_text(options_.out + "/" + kScript, script);
    if (options_.draw && options_.draw(options_.out, kScript)) return fmt::format("{}, {}\n", files, kPicture);
    return fmt::format("{}, {}; `gnuplot {}` in this folder draws it\n", files, kScript, kScript);
  }

  const StudyOptions& options_;
  const energy::Machine& machine_;
  const std::atomic<bool>& stop_;
  Json manifest_;
  std::vector<Row> rows_;
};

}  // namespace

bool run_study(const StudyOptions& options, const energy::Machine& machine, const std::atomic<bool>& stop) {
  Study(options, machine, stop).run();
  return !stop;
}

}  // namespace convoy::study
