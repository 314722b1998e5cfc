#include "energy/meter.hpp"

#include <string_view>
#include <utility>

namespace convoy::energy {

MeterRow tried(MeterInfo info, std::unique_ptr<Meter> meter) {
  MeterRow row{.info = std::move(info), .meter = nullptr, .unusable = ""};
  try {
    meter->read();
    row.meter = std::move(meter);
  } catch (const Error& error) {
    row.unusable = error.what();
  }
  return row;
}

MeterRow unusable(MeterInfo info, std::string why) {
  return {.info = std::move(info), .meter = nullptr, .unusable = std::move(why)};
}

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::rail: return "rail";
    case Scope::gpu: return "GPU";
    case Scope::package: return "package";
    case Scope::board: return "board";
    case Scope::wall: return "wall";
  }
  return "";
}

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::measured: return "measured";
    case Origin::smoothed: return "smoothed";
    case Origin::modelled: return "modelled";
  }
  return "";
}

}  // namespace convoy::energy
