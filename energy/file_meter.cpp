#include "energy/file_meter.hpp"

#include <utility>

namespace convoy::energy {
namespace {

class FileMeter : public Meter {
 public:
  FileMeter(const Machine& machine, std::vector<FileChannel> channels, std::string if_denied)
      : machine_(machine), channels_(std::move(channels)), if_denied_(std::move(if_denied)) {}

  std::vector<Reading> read() override {
    Reading reading;
    for (const FileChannel& channel : channels_) {
      double value = number(channel.path) * channel.unit;
      if (!channel.times.empty()) value *= number(channel.times);
      reading.values.push_back(value);
    }
    return {reading};
  }

 private:
  double number(const std::string& path) const { return number_in(sensor_text(machine_, path, if_denied_), path); }

  const Machine& machine_;
  std::vector<FileChannel> channels_;
  std::string if_denied_;
};

}  // namespace

std::string sensor_text(const Machine& machine, const std::string& path, const std::string& if_denied) {
  try {
    return machine.read(path);
  } catch (const Unreadable& error) {
    if (error.denied()) throw NotMeasurable(fmt::format("{}; {}", error.what(), if_denied));
    // A sensor may be busy for one reading; a sensor that is gone stays away.
    if (error.missing()) throw NotMeasurable(fmt::format("{}; the sensor is gone", error.what()));
    throw;
  }
}

MeterRow file_meter(const Machine& machine, MeterInfo info, std::vector<FileChannel> channels,
                    const std::string& if_denied) {
  for (const FileChannel& channel : channels) info.channels.push_back({channel.name, channel.wraps_at});
  return tried(std::move(info), std::make_unique<FileMeter>(machine, std::move(channels), if_denied));
}

}  // namespace convoy::energy
