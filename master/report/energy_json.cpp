#include "master/report/energy_json.hpp"

namespace convoy {

nlohmann::ordered_json energy_json(const EnergyReport& report) {
  using Json = nlohmann::ordered_json;
  Json members = Json::array();
  for (const auto& [member, energy] : report.members) {
    Json row{{"member", member}, {"meter", energy.meter}};
    if (energy.measured()) {
      row.update({{"scope", energy.scope},
                  {"origin", energy.origin},
                  {"seconds", energy.seconds},
                  {"joules", energy.joules()},
                  {"error", energy.error},
                  {"compute", energy.compute},
                  {"transfer", energy.transfer},
                  {"wait", energy.wait},
                  {"watts", energy.watts},
                  {"refresh", energy.refresh},
                  {"wraps", energy.wraps},
                  {"gaps", energy.gaps},
                  {"gap_seconds", energy.gap_seconds}});
      if (energy.idle_watts > 0) row.update({{"idle_watts", energy.idle_watts}, {"idle_error", energy.idle_error}});
    } else {
      row["not_measurable"] = energy.refusal;
      if (report.assumed_watts > 0) row["assumed_watts"] = report.assumed_watts;
    }
    members.push_back(row);
  }
  const EnergyTotal total = total_of(report);
  Json json{{"members", members}, {"measured_members", total.measured}};
  if (total.measured > 0) {
    json.update({{"joules", total.joules},
                 {"error", total.error},
                 {"compute", total.compute},
                 {"transfer", total.transfer},
                 {"wait", total.wait},
                 {"wraps", total.wraps},
                 {"gaps", total.gaps},
                 {"gap_seconds", total.gap_seconds}});
  }
  if (total.with_idle > 0) {
    json.update({{"above_idle", total.above_idle},
                 {"above_idle_error", total.above_idle_error},
                 {"above_idle_members", total.with_idle}});
  }
  if (total.declared > 0) json["declared_joules"] = total.declared;
  if (total.assumed > 0) json["assumed_joules"] = total.assumed;
  return json;
}

nlohmann::ordered_json energy_json(const EnergyReport& report, const EnergyUse& use) {
  nlohmann::ordered_json json = energy_json(report);
  const EnergyTotal total = total_of(report);
  const double joules = total.all();
  if (use.images <= 0 || joules <= 0) return json;
  json.update({{"joules_per_image", joules / use.images},
               {"images_per_joule", use.images / joules},
               {"energy_delay_product", joules * use.seconds}});
  if (total.with_idle > 0) json["above_idle_per_image"] = total.above_idle / use.images;
  return json;
}

}  // namespace convoy
