// The JSON of a plan.

#include "plan/json_fields.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

using Json = nlohmann::json;

Json to_json(const std::vector<Assignment>& assignments) {
  Json list = Json::array();
  for (const Assignment& each : assignments) {
    list.push_back({{"member", each.member}, {"first", each.filters.first}, {"filters", each.filters.count}});
  }
  return list;
}

std::vector<Assignment> assignments_from_json(const Json& list) {
  std::vector<Assignment> assignments;
  for (const Json& each : list) {
    assignments.push_back({integer(each, "member"), {integer(each, "first"), integer(each, "filters")}});
  }
  return assignments;
}

int member_from_json(const Json& member) {
  return static_cast<int>(whole_number(member, "a member of \"unequal\"", std::numeric_limits<int>::max()));
}

/// `samples` are those of a micro-batch.
StagePlan stage_from_json(const Json& json, int samples) {
  StagePlan stage;
  if (json.contains("shards")) {
    if (json.contains("rows")) fail("a stage has both \"shards\" and \"rows\"; keep the rows");
    std::vector<Assignment> shards = assignments_from_json(json.at("shards"));
    if (!shards.empty()) stage = one_row(std::move(shards), samples);
  } else {
    for (const Json& row : json.at("rows")) {
      stage.rows.push_back(
          {{integer(row, "first_sample"), integer(row, "samples")}, assignments_from_json(row.at("shards"))});
    }
  }
  if (json.contains("owners")) stage.owners = assignments_from_json(json.at("owners"));
  stage.replicated = json.value("replicated", false);
  return stage;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    Json rows = Json::array();
    for (const Row& row : stage.rows) {
      rows.push_back(
          {{"first_sample", row.samples.first}, {"samples", row.samples.count}, {"shards", to_json(row.shards)}});
    }
    Json object{{"rows", rows}, {"replicated", stage.replicated}};
    if (!stage.owners.empty()) object["owners"] = to_json(stage.owners);
    stages.push_back(std::move(object));
  }
  return Json{{"batch", plan.batch},
              {"members", plan.members},
              {"stages", stages},
              {"exchange", to_string(plan.exchange)},
              {"wire", to_string(plan.wire)},
              {"micro_batches", plan.micro_batches},
              {"relayed", plan.relayed},
              {"early_sums", plan.early_sums},
              {"unequal", plan.unequal}}
             .dump(1) +
         "\n";
}

Plan plan_from_json(const std::string& text, const std::string& file) {
  try {
    const Json json = parse_json(text);
    Plan plan{integer(json, "batch"), json.at("members").get<std::vector<std::string>>(), {}};
    plan.exchange = exchange_from(json.value("exchange", "star"));
    plan.wire = number_type_from(json.value("wire", "fp32"));
    if (json.contains("micro_batches")) plan.micro_batches = integer(json, "micro_batches");
    const int samples = plan.micro_batches > 0 ? micro_batch_size(plan) : 0;
    for (const Json& stage : json.at("stages")) plan.stages.push_back(stage_from_json(stage, samples));
    plan.relayed = json.value("relayed", false);
    if (json.contains("early_sums")) plan.early_sums = integer(json, "early_sums");
    for (const Json& member : json.value("unequal", Json::array())) plan.unequal.push_back(member_from_json(member));
    return plan;
  } catch (const Json::exception& error) {
    fail("{}: the file is not a plan: {}; expected the plan.json of a run", file, fault_of(error));
  } catch (const Error& error) {
    fail("{}: {}", file, error.what());
  }
}

}  // namespace convoy
