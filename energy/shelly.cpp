#include "energy/plug.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

/// From Shelly's references of its interfaces: Gen 1, "meters", in W and Wmin; Gen 2 and later, Switch and PM1, in W
/// and Wh.
const PlugAnswer kFirstShelly{"/status", "/meters/0/power", "/meters/0/total", 60};
const PlugAnswer kSwitch{"/rpc/Switch.GetStatus?id=0", "/apower", "/aenergy/total", 3600};
const PlugAnswer kMeterAlone{"/rpc/PM1.GetStatus?id=0", "/apower", "/aenergy/total", 3600};

}  // namespace

MeterRow shelly_plug(const Machine& machine, const std::string& host) {
  MeterInfo info{.name = "shelly:" + host, .source = "a Shelly plug", .device = "machine", .scope = Scope::wall};
  try {
    const nlohmann::json about = ask_plug(machine, host, "/shelly");
    if (!about.contains("gen")) {
      info.source += " of generation 1";
      return plug_meter(machine, std::move(info), host, kFirstShelly);
    }
    info.source += " of generation 2 or later";
    MeterRow row = plug_meter(machine, info, host, kSwitch);
    return row.meter != nullptr ? std::move(row) : plug_meter(machine, std::move(info), host, kMeterAlone);
  } catch (const Error& error) {
    return unusable(std::move(info), error.what());
  }
}

}  // namespace convoy::energy
