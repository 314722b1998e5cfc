#include "study/facts.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>

#include "core/text.hpp"

namespace convoy::study {
namespace {

using Json = nlohmann::ordered_json;
using energy::Machine;
using energy::number_if_any;
using energy::text_if_any;
using energy::Unreadable;

constexpr std::size_t kLongestFact = 200;

Json absent(const std::string& why) { return {{"absent", why}}; }

Json text_fact(const Machine& machine, const std::string& path) {
  try {
    std::string text = machine.read(path);
    while (!text.empty() && text.back() == '\0') text.pop_back();  // texts of the device tree end in one
    return text.empty() ? absent(path + " is empty") : Json(printable(text, kLongestFact));
  } catch (const Error& error) {
    return absent(error.what());
  }
}

/// The number of a file times `factor`, under `name`; nothing where there is no such file.
void add_number(Json& json, const char* name, const Machine& machine, const std::string& path, double factor = 1) {
  if (const auto number = number_if_any(machine, path)) json[name] = *number * factor;
}

void add_text(Json& json, const char* name, const Machine& machine, const std::string& path) {
  const std::string text = text_if_any(machine, path);
  if (!text.empty()) json[name] = printable(text, kLongestFact);
}

/// What `look` finds in each folder within `folder` whose name begins with `prefix`; absent where it finds nothing.
template <typename Look>
Json each_in(const Machine& machine, const std::string& folder, const std::string& prefix, const Look& look) {
  Json found = Json::array();
  try {
    for (const std::string& name : machine.names(folder)) {
      if (!name.starts_with(prefix)) continue;
      Json facts = look(folder + "/" + name);
      if (facts.empty()) continue;
      Json entry{{"name", printable(name, kLongestFact)}};
      entry.update(facts);
      found.push_back(entry);
    }
  } catch (const Unreadable& error) {
    return absent(error.what());
  }
  return found.empty() ? absent(fmt::format("{} has no values that can be read", folder)) : found;
}

Json temperatures(const Machine& machine) {
  return each_in(machine, "/sys/class/thermal", "thermal_zone", [&](const std::string& zone) {
    Json facts = Json::object();
    const auto temperature = number_if_any(machine, zone + "/temp");
    if (!temperature) return facts;
    add_text(facts, "type", machine, zone + "/type");
    facts["celsius"] = *temperature / 1000;
    return facts;
  });
}

/// The clocks of the folders in `folder` whose names begin with `prefix`: their files named `now` and `most`, which
/// times `scale` are MHz, and `governor`.
Json clocks(const Machine& machine, const std::string& folder, const std::string& prefix, const std::string& now,
            const std::string& most, const std::string& governor, double scale) {
  return each_in(machine, folder, prefix, [&](const std::string& clock) {
    Json facts = Json::object();
    add_number(facts, "mhz", machine, clock + "/" + now, scale);
    add_number(facts, "most_mhz", machine, clock + "/" + most, scale);
    add_text(facts, "governor", machine, clock + "/" + governor);
    return facts;
  });
}

Json batteries(const Machine& machine) {
  return each_in(machine, "/sys/class/power_supply", "", [&](const std::string& supply) {
    Json facts = Json::object();
    if (text_if_any(machine, supply + "/type") != "Battery") return facts;
    add_text(facts, "status", machine, supply + "/status");
    add_number(facts, "percent", machine, supply + "/capacity");
    add_number(facts, "celsius", machine, supply + "/temp", 0.1);
    return facts;
  });
}

Json model(const Machine& machine) {
  Json found = text_fact(machine, "/proc/device-tree/model");
  if (!found.is_object()) return found;
  Json desktop = text_fact(machine, "/sys/class/dmi/id/product_name");
  if (!desktop.is_object()) return desktop;
  if (energy::names_like(machine, "/system/bin", "sh").empty()) return found;  // not Android
  try {
    return printable(machine.run({"getprop", "ro.product.model"}), kLongestFact);
  } catch (const Error& error) {
    return absent(error.what());
  }
}

/// The processor's name as Linux tells it. On ARM it mostly tells none.
Json processor(const Machine& machine) {
  try {
    const std::string text = machine.read("/proc/cpuinfo");
    for (const char* const field : {"model name", "Hardware"}) {
      const auto line = text.find(field);
      if (line == std::string::npos) continue;
      const auto colon = text.find(": ", line);
      if (colon == std::string::npos) continue;
      return printable(text.substr(colon + 2, text.find('\n', colon) - colon - 2), kLongestFact);
    }
    return absent("/proc/cpuinfo names no processor");
  } catch (const Error& error) {
    return absent(error.what());
  }
}

/// A time in seconds since 1970 as in "2026-11-26T12:00:00Z".
std::string date_of(double unix_time) {
  const auto time = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

Json machine_facts(const Machine& machine) {
  return {{"model", model(machine)},
          {"processor", processor(machine)},
          {"kernel", text_fact(machine, "/proc/sys/kernel/osrelease")}};
}

Json state_facts(const Machine& machine) {
  return {{"date", date_of(machine.unix_time())},
          {"temperatures", temperatures(machine)},
          {"processor_clocks", clocks(machine, "/sys/devices/system/cpu/cpufreq", "policy", "scaling_cur_freq",
                                      "scaling_max_freq", "scaling_governor", 1e-3)},
          {"device_clocks", clocks(machine, "/sys/class/devfreq", "", "cur_freq", "max_freq", "governor", 1e-6)},
          {"batteries", batteries(machine)}};
}

}  // namespace convoy::study
