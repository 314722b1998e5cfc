#include "energy/plug.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {

MeterRow tasmota_plug(const Machine& machine, const std::string& host) {
  // From Tasmota's page of JSON responses: W, and kWh in steps of 1 Wh or less.
  const PlugAnswer answer{"/cm?cmnd=Status%208", "/StatusSNS/ENERGY/Power", "/StatusSNS/ENERGY/Total", 3.6e6};
  return plug_meter(machine, {.name = "tasmota:" + host, .source = "a plug with Tasmota"}, host, answer);
}

}  // namespace convoy::energy
