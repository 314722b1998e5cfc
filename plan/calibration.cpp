#include "plan/calibration.hpp"

#include <fmt/ranges.h>

#include "plan/json_fields.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

OrderedJson timing_json(const Timing& timing) {
  return {{"filters", timing.filters},
          {"forward", timing.forward},
          {"backward_input", timing.backward_input},
          {"backward_filters", timing.backward_filters},
          {"update", timing.update},
          {"forward_call", timing.forward_call},
          {"backward_input_call", timing.input_call}};
}

/// Adds the power of a machine where it is known.
void add_power(OrderedJson& json, const std::optional<Power>& power) {
  if (!power) return;
  json["watts"] = OrderedJson{{"idle", power->idle}, {"compute", power->compute}, {"transfer", power->transfer}};
}

OrderedJson member_json(const MemberProfile& member) {
  OrderedJson stages = OrderedJson::array();
  for (const std::vector<Timing>& timings : member.stages) {
    OrderedJson rows = OrderedJson::array();
    for (const Timing& timing : timings) rows.push_back(timing_json(timing));
    stages.push_back(std::move(rows));
  }
  OrderedJson json{{"name", member.name},
                   {"memory", member.memory},
                   {"filter_block", member.filter_block},
                   {"bytes_per_second_out", member.link.out},
                   {"bytes_per_second_in", member.link.in},
                   {"latency", member.latency},
                   {"busy_per_byte", member.host.busy_per_byte},
                   {"memory_bytes_per_second", member.host.memory},
                   {"stages", std::move(stages)}};
  if (member.memory_factor > 0.0) json["memory_factor"] = member.memory_factor;
  if (!member.same_bits) json["same_bits"] = false;
  add_power(json, member.power);
  return json;
}

std::optional<HeadTimes> sliced_head_from(const Json& json) {
  if (!json.contains("sliced_head_seconds")) return std::nullopt;
  const Json& seconds = json.at("sliced_head_seconds");
  return HeadTimes{amount(seconds, "fixed"), amount(seconds, "per_image"), amount(seconds, "update")};
}

HostSpeed host_from(const Json& json) {
  const HostSpeed host{amount(json, "busy_per_byte"), amount(json, "memory_bytes_per_second")};
  if (!(host.memory > 0.0)) fail("memory_bytes_per_second is {}, but must be above 0", host.memory);
  return host;
}

/// Returns the power of the machine `name`, or nothing where the file does not have it.
std::optional<Power> power_from(const Json& json, const std::string& name) {
  if (!json.contains("watts")) return std::nullopt;
  const Json& watts = json.at("watts");
  const Power power{
      .idle = amount(watts, "idle"), .compute = amount(watts, "compute"), .transfer = amount(watts, "transfer")};
  if (const std::string fault = fault_in(power); !fault.empty()) fail("watts of {}: {}", name, fault);
  return power;
}

std::vector<Timing> timings_from(const Json& rows, const std::string& stage) {
  constexpr int kMostFilters = 1 << 20;
  std::vector<Timing> timings;
  for (const Json& row : rows) {
    const Timing timing{integer(row, "filters"),           amount(row, "forward"), amount(row, "backward_input"),
                        amount(row, "backward_filters"),   amount(row, "update"),  amount(row, "forward_call"),
                        amount(row, "backward_input_call")};
    const int least = timings.empty() ? 1 : timings.back().filters + 1;
    if (timing.filters < least || timing.filters > kMostFilters) {
      fail("stage {}: a timing has {} filters; expected {} to {}", stage, timing.filters, least, kMostFilters);
    }
    if (!(timing.seconds() > 0.0))
      fail("stage {}: the timing of {} filters is 0 s; expected more", stage, timing.filters);
    timings.push_back(timing);
  }
  return timings;
}

MemberProfile member_from(const Json& json, const std::vector<std::string>& names) {
  MemberProfile member{
      .name = json.at("name").get<std::string>(),
      .memory = static_cast<std::size_t>(whole_number(json.at("memory"), "memory", std::int64_t{1} << 60)),
      .memory_factor = json.contains("memory_factor") ? amount(json, "memory_factor") : 0.0,
      .filter_block = integer(json, "filter_block"),
      .same_bits = json.value("same_bits", true),
      .stages = {},
      .link = {amount(json, "bytes_per_second_out"), amount(json, "bytes_per_second_in")},
      .latency = amount(json, "latency"),
      .host = host_from(json),
      .power = power_from(json, json.at("name").get<std::string>())};
  if (member.memory_factor != 0.0 && member.memory_factor < 1.0)
    fail("memory_factor of {1} is {0}; expected at least 1", member.memory_factor, member.name);
  if (member.filter_block < 1 || member.filter_block > 1024)
    fail("filter_block of {1} is {0}; expected 1 to 1024", member.filter_block, member.name);
  const Json& stages = json.at("stages");
  if (stages.size() != names.size())
    fail("{} has timings of {} stages, but the net has {}", member.name, stages.size(), names.size());
  for (std::size_t s = 0; s < names.size(); ++s) member.stages.push_back(timings_from(stages.at(s), names[s]));
  return member;
}

}  // namespace

Calibration without_slices(Calibration calibration, std::size_t stages) {
  if (!calibration.sliced_head || calibration.stages.size() < stages) return calibration;
  calibration.sliced_head.reset();
  calibration.stages.resize(stages);
  for (MemberProfile& member : calibration.members) member.stages.resize(stages);
  return calibration;
}

std::string to_json(const Calibration& calibration) {
  OrderedJson members = OrderedJson::array();
  for (const MemberProfile& member : calibration.members) members.push_back(member_json(member));
  OrderedJson json{{"batch", calibration.batch},
                   {"stages", calibration.stages},
                   {"head_seconds_fixed", calibration.master.head.fixed},
                   {"head_seconds_per_image", calibration.master.head.per_image},
                   {"head_update_seconds", calibration.master.head.update},
                   {"busy_per_byte", calibration.master.host.busy_per_byte},
                   {"memory_bytes_per_second", calibration.master.host.memory},
                   {"bytes_per_second_out", calibration.master.card.out},
                   {"bytes_per_second_in", calibration.master.card.in},
                   {"seconds_alone", calibration.seconds_alone},
                   {"members", std::move(members)}};
  add_power(json, calibration.master.power);
  if (const auto& head = calibration.sliced_head) {
    json["sliced_head_seconds"] =
        OrderedJson{{"fixed", head->fixed}, {"per_image", head->per_image}, {"update", head->update}};
  }
  return json.dump(1) + "\n";
}

Calibration calibration_from_json(const std::string& text, const std::string& file) {
  try {
    const Json json = parse_json(text);
    Calibration read{.batch = integer(json, "batch"),
                     .stages = json.at("stages").get<std::vector<std::string>>(),
                     .master = {.head = {amount(json, "head_seconds_fixed"), amount(json, "head_seconds_per_image"),
                                         amount(json, "head_update_seconds")},
                                .host = host_from(json),
                                .card = {amount(json, "bytes_per_second_out"), amount(json, "bytes_per_second_in")},
                                .power = power_from(json, kMasterName)},
                     .members = {},
                     .seconds_alone = amount(json, "seconds_alone"),
                     .sliced_head = sliced_head_from(json)};
    if (read.batch < 1) fail("batch is {}, expected at least 1", read.batch);
    for (const Json& member : json.at("members")) read.members.push_back(member_from(member, read.stages));
    if (read.members.empty()) fail("the calibration has no members; expected at least one");
    return read;
  } catch (const Json::exception& error) {
    fail("{}: the file is not a calibration: {}; expected the calibration.json of a run", file, fault_of(error));
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

Calibration calibration_from_json(const std::string& text, const std::string& file, const std::vector<Stage>& trunk,
                                  int batch, bool sliced) {
  Calibration read = calibration_from_json(text, file);
  if (!sliced) read = without_slices(std::move(read), trunk.size());
  std::vector<std::string> names;
  for (const Stage& stage : trunk) names.push_back(stage.name);
  if (read.stages != names) {
    fail("{}: the calibration is for a net with the stages {}, but this net has {}", file, fmt::join(read.stages, ", "),
         fmt::join(names, ", "));
  }
  if (read.batch != batch) {
    fail("{}: the timings are for a batch of {}; use --batch {}", file, read.batch, read.batch);
  }
  for (const MemberProfile& member : read.members) {
    for (std::size_t s = 0; s < trunk.size(); ++s) {
      if (member.stages[s].empty() || member.stages[s].back().filters <= trunk[s].conv.filters) continue;
      fail("{}: stage {}: a timing has {} filters, but the stage has {}", file, trunk[s].name,
           member.stages[s].back().filters, trunk[s].conv.filters);
    }
  }
  return read;
}

}  // namespace convoy
