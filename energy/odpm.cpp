#include <array>
#include <map>
#include <sstream>

#include "energy/file_meter.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

const std::string kIio = "/sys/bus/iio/devices";
const std::string kOdpmDenied = "run the slave from adb's shell as root (adb root), or choose the battery";

/// A part of the phone, and words of the subsystem's or the rail's name that tell its rails.
struct Part {
  std::string name;
  std::string device;
  std::vector<std::string> words;
};
const std::array<Part, 3> kParts{{
    {"gpu", "gpu", {"GPU", "G3D"}},
    {"cpu", "cpu", {"CPU"}},
    {"memory", "rail memory", {"DDR", "MEM", "VDD2", "MIF"}},
}};

/// A rail: its channel in the file of a device.
struct Rail {
  std::string device;
  std::string channel;  ///< such as "CH6"
  std::string name;     ///< such as "S2S_VDD_G3D"
  std::size_t part = kParts.size();
};

/// Reads lines such as "CH6[S2S_VDD_G3D]:GPU" of enabled_rails.
std::vector<Rail> rails_of(const std::string& device, const std::string& text) {
  std::vector<Rail> rails;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto open = line.find('[');
    const auto close = line.find(']', open);
    if (!line.starts_with("CH") || close == std::string::npos) continue;
    Rail rail{.device = device, .channel = line.substr(0, open), .name = line.substr(open + 1, close - open - 1)};
    for (std::size_t part = kParts.size(); part-- > 0;) {
      for (const std::string& word : kParts[part].words) {
        if (line.find(word, open) != std::string::npos) rail.part = part;
      }
    }
    rails.push_back(rail);
  }
  return rails;
}

/// Adds the rails of one part. A file has the line "t=359458", a time in ms, and lines such as
/// "CH6(T=359458)[S2S_VDD_G3D], 5315420", with the energy in uJ.
class OdpmMeter : public Meter {
 public:
  OdpmMeter(const Machine& machine, std::vector<Rail> rails) : machine_(machine), rails_(std::move(rails)) {}

  std::vector<Reading> read() override {
    Reading reading{.stamp = 0};
    std::map<std::string, std::string> files;
    for (const Rail& rail : rails_) {
      std::string& text = files[rail.device];
      if (text.empty()) text = energies(rail.device, reading);
      const auto line = text.find("\n" + rail.channel + "(");
      const auto end = text.find('\n', line + 1);
      const auto comma = text.find(", ", line);
      if (line == std::string::npos || comma >= end)
        fail("{}/{}/energy_value lacks {}", kIio, rail.device, rail.channel);
      reading.values.push_back(1e-6 * number_in(text.substr(comma + 2, end - comma - 2), rail.name));
    }
    return {reading};
  }

 private:
  std::string energies(const std::string& device, Reading& reading) const {
    const std::string path = kIio + "/" + device + "/energy_value";
    const std::string text = sensor_text(machine_, path, kOdpmDenied);
    if (!text.starts_with("t=")) fail("{}: expected a line with a time at the beginning", path);
    *reading.stamp += number_in(text.substr(2, text.find('\n') - 2), path);
    return text + "\n";
  }

  const Machine& machine_;
  std::vector<Rail> rails_;
};

}  // namespace

Meters find_odpm(const Machine& machine) {
  std::vector<Rail> rails;
  Meters found;
  for (const std::string& device : names_like(machine, kIio, "iio:device")) {
    const std::string path = kIio + "/" + device + "/enabled_rails";
    try {
      for (const Rail& rail : rails_of(device, machine.read(path))) rails.push_back(rail);
    } catch (const Unreadable& error) {
      if (error.missing()) continue;  // another kind of sensor
      found.push_back(unusable({.name = "odpm", .source = "ODPM", .device = "gpu"},
                               fmt::format("{}; {}", error.what(), kOdpmDenied)));
      return found;
    }
  }
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    MeterInfo info{.name = "odpm:" + kParts[part].name,
                   .source = "ODPM, rails",
                   .device = kParts[part].device,
                   .scope = Scope::rail,
                   .quantity = Quantity::joules,
                   .by_default = part < 2};
    std::vector<Rail> own;
    for (const Rail& rail : rails) {
      if (rail.part != part) continue;
      info.source += (own.empty() ? " " : ", ") + rail.name;
      info.channels.push_back({rail.name});
      own.push_back(rail);
    }
    if (!own.empty()) found.push_back(tried(std::move(info), std::make_unique<OdpmMeter>(machine, std::move(own))));
  }
  return found;
}

}  // namespace convoy::energy
