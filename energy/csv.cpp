#include <chrono>
#include <cmath>
#include <sstream>

#include "core/text.hpp"
#include "energy/readers.hpp"

namespace convoy::energy {
namespace {

/// Reads the lines that have been added to the file since the last reading.
class CsvMeter : public Meter {
 public:
  CsvMeter(const Machine& machine, std::string file) : machine_(machine), file_(std::move(file)) {}

  std::vector<Reading> read() override {
    const std::string text = machine_.tail(file_, begin_);
    // A last line without an end is still being written.
    const std::string whole = text.substr(0, text.rfind('\n') + 1);
    begin_ += whole.size();
    std::vector<Reading> readings;
    std::istringstream lines(whole);
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      if (line_ == 1 || line.find_first_not_of(" \t\r") == std::string::npos) continue;
      readings.push_back(reading_in(line));
    }
    return readings;
  }

 private:
  Reading reading_in(const std::string& line) {
    const std::string where = fmt::format("{}:{}", file_, line_);
    const auto comma = line.find(',');
    if (comma == std::string::npos) throw NotMeasurable(where + ": expected a time, a comma and a value");
    double time = 0;
    double value = 0;
    try {
      time = number_in(line.substr(0, comma), where);
      const auto end = line.find_first_of(", \t\r", comma + 1);
      value = number_in(line.substr(comma + 1, end == std::string::npos ? end : end - comma - 1), where);
    } catch (const Error& error) {
      throw NotMeasurable(error.what());
    }
    if (time <= last_) throw NotMeasurable(where + ": its time is not later than that of the line before");
    last_ = time;
    const double ago = machine_.unix_time() - time;
    if (std::abs(ago) > 1e8) throw NotMeasurable(where + ": its time is years from now; times are seconds since 1970");
    return {.values = {value}, .taken = Clock::now() - Clock::seconds(ago), .stamp = time};
  }

  const Machine& machine_;
  std::string file_;
  std::size_t begin_ = 0;
  int line_ = 0;
  double last_ = 0;
};

}  // namespace

MeterRow csv_file(const Machine& machine, const std::string& file) {
  MeterInfo info{.name = "csv:" + file,
                 .source = "the file " + file,
                 .device = "machine",
                 .scope = Scope::wall,
                 .channels = {{"csv"}}};
  try {
    const std::string text = machine.tail(file, 0);
    const std::string header = text.substr(0, text.find_first_of("\r\n"));
    if (header == "time,joules") {
      info.quantity = Quantity::joules;
    } else if (header != "time,watts") {
      fail("{}:1: expected 'time,watts' or 'time,joules' instead of '{}'", file, printable(header, 40));
    }
  } catch (const Error& error) {
    return unusable(std::move(info), error.what());
  }
  MeterRow row = tried(std::move(info), std::make_unique<CsvMeter>(machine, file));
  // The trial has read the lines that are there.
  if (row.meter != nullptr) row.meter = std::make_unique<CsvMeter>(machine, file);
  return row;
}

}  // namespace convoy::energy
