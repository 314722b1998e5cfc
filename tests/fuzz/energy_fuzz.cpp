// Reads the answers of plugs, the outputs of commands, and the files that meters of energy read. The first byte selects
// the source. Form feeds separate the texts of successive readings, of which the last two come in turns. Whatever the
// texts are, an energy that is told must be a number that a machine can take.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "energy/http_answer.hpp"
#include "energy/meters.hpp"
#include "energy/readers.hpp"
#include "energy/record.hpp"
#include "energy/sampler.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace convoy;
using namespace convoy::energy;

/// A machine whose files, commands and plugs all answer with the fuzzer's texts.
class AnyMachine : public Machine {
 public:
  AnyMachine(char source, const std::string& texts) : source_(source), all_(texts) {
    std::size_t begin = 0;
    for (auto end = texts.find('\f'); end != std::string::npos; end = texts.find('\f', begin)) {
      texts_.push_back(texts.substr(begin, end - begin));
      begin = end + 1;
    }
    texts_.push_back(texts.substr(begin));
  }

  std::string read(const std::string& path) const override {
    if (source_ == 'p' && path == "/proc/device-tree/model") return "Raspberry Pi 5";
    // The first text lists the rails of a phone, and the others have their counters.
    if (source_ == 'o' && path.ends_with("/enabled_rails")) return texts_.front();
    if (source_ == 'o' && path.ends_with("/energy_value")) return next();
    throw Unreadable(path, ENOENT);
  }
  std::vector<std::string> names(const std::string& folder) const override {
    if (source_ == 'o' && folder == "/sys/bus/iio/devices") return {"iio:device0"};
    if (folder == "/system") return {"bin"};
    throw Unreadable(folder, ENOENT);
  }
  std::string tail(const std::string& path, std::size_t begin) const override {
    if (begin > all_.size()) fail("{}: the file has become shorter", path);
    constexpr std::size_t kAtATime = 100;
    return all_.substr(begin, kAtATime);
  }
  std::string run(const std::vector<std::string>& command) const override {
    const char wanted = command.front() == "dumpsys" ? 'd' : command.front() == "vcgencmd" ? 'p' : 'x';
    if (source_ != wanted) fail("the command {} is not there", command.front());
    return next();
  }
  std::string get(const std::string&, const std::string&) const override { return next(); }
  double unix_time() const override { return 1.8e9 + std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  const std::string& next() const {
    const std::size_t number = used_++;
    const std::size_t count = texts_.size();
    return texts_[number < count || count == 1 ? std::min(number, count - 1) : count - 1 - number % 2];
  }

  char source_;
  std::string all_;
  std::vector<std::string> texts_;
  mutable std::size_t used_ = 0;
  Clock::time_point begin_ = Clock::now();
};

Meters meters_of(char source, const Machine& machine) {
  Meters rows;
  if (source == 's') rows.push_back(shelly_plug(machine, "192.168.0.8"));
  if (source == 't') rows.push_back(tasmota_plug(machine, "192.168.0.9"));
  if (source == 'c') rows.push_back(csv_file(machine, "power.csv"));
  if (source == 'x' || source == 'd') rows = find_android_battery(machine);
  if (source == 'p') rows = find_raspberry_pi(machine);
  if (source == 'o') rows = find_odpm(machine);
  return rows;
}

void check(const Record& record, Clock::time_point from) {
  const Measurement span = record.between(from, Clock::now());
  invariant(span.energy.has_value() == span.refusal.empty(), "an energy or a refusal");
  if (!span.energy) return;
  constexpr double kMostWatts = 10000;
  invariant(span.energy->value >= 0 && span.energy->value <= 1.1 * kMostWatts * span.seconds, "an energy of a machine");
  invariant(std::isfinite(span.energy->error) && span.energy->error >= 0, "an interval");
}

void measure(MeterRow& row) {
  Record record(row.info);
  const Clock::time_point begin = Clock::now();
  Clock::time_point middle = begin;
  constexpr int kReadings = 240;
  for (int i = 0; i < kReadings; ++i) {
    if (i == kReadings / 2) middle = Clock::now();
    sample(*row.meter, record);
    Clock::sleep_for(std::chrono::milliseconds(100));
  }
  check(record, begin);
  check(record, middle);  // rubbish that came before `middle` must not count here
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const char source = static_cast<char>(data[0]);
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  return try_to([&] {
    const TimeOfSleeps time;
    if (source == 'h') {
      is_whole_answer(text);
      body_of_answer(text, "192.168.0.7", "/status");
    }
    const AnyMachine machine(source, text);
    for (MeterRow& row : meters_of(source, machine)) {
      if (row.meter != nullptr) measure(row);
    }
  });
}
