// What plugs with different firmware share: JSON over HTTP with a power and a counter.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "energy/machine.hpp"
#include "energy/meter.hpp"

namespace convoy::energy {

/// Where a plug's answer has its numbers.
struct PlugAnswer {
  std::string target;          ///< of the request
  std::string watts;           ///< a JSON pointer, such as "/apower"
  std::string total;           ///< a JSON pointer to the counter
  double joules_of_total = 0;  ///< J in a step of the counter
};

/// Returns the plug's answer to a request. Throws Error if it is no JSON object.
nlohmann::json ask_plug(const Machine& machine, const std::string& host, const std::string& target);
/// Returns the row of a plug with such answers. The check is the plug's own counter, which has coarser steps.
MeterRow plug_meter(const Machine& machine, MeterInfo info, const std::string& host, const PlugAnswer& answer);

}  // namespace convoy::energy
