#include "energy/plug.hpp"

#include "core/text.hpp"

namespace convoy::energy {
namespace {

using Json = nlohmann::json;

std::optional<double> number_at(const Json& answer, const std::string& place) {
  const Json::json_pointer pointer(place);
  if (!answer.contains(pointer) || !answer.at(pointer).is_number()) return std::nullopt;
  return answer.at(pointer).get<double>();
}

class PlugMeter : public Meter {
 public:
  PlugMeter(const Machine& machine, std::string host, PlugAnswer answer)
      : machine_(machine), host_(std::move(host)), answer_(std::move(answer)) {}

  std::vector<Reading> read() override {
    const Json json = ask_plug(machine_, host_, answer_.target);
    const auto watts = number_at(json, answer_.watts);
    if (!watts)
      fail("{}{} has no number at {}; it may be a plug without a meter", host_, answer_.target, answer_.watts);
    Reading reading{.values = {*watts}};
    if (const auto total = number_at(json, answer_.total)) reading.check = *total * answer_.joules_of_total;
    return {reading};
  }

 private:
  const Machine& machine_;
  std::string host_;
  PlugAnswer answer_;
};

}  // namespace

Json ask_plug(const Machine& machine, const std::string& host, const std::string& target) {
  const std::string text = machine.get(host, target);
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    fail("{}{}: expected a JSON object instead of '{}'", host, target, printable(text, 40));
  }
  return json;
}

MeterRow plug_meter(const Machine& machine, MeterInfo info, const std::string& host, const PlugAnswer& answer) {
  info.device = "machine";
  info.scope = Scope::wall;
  info.channels = {{"plug"}};
  info.refresh = 1;
  return tried(std::move(info), std::make_unique<PlugMeter>(machine, host, answer));
}

}  // namespace convoy::energy
