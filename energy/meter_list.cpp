#include "energy/meter_list.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "energy/meters.hpp"
#include "energy/record.hpp"
#include "energy/sampler.hpp"

namespace convoy::energy {
namespace {

constexpr double kObservedSeconds = 1;
constexpr int kEnoughChanges = 20;

/// Reads a meter for a while, or until enough new values were seen.
Record observed(MeterRow& row) {
  Record record(row.info);
  const Clock::time_point begin = Clock::now();
  const auto end = begin + Clock::seconds(kObservedSeconds);
  do {
    sample(*row.meter, record);
    if (record.between(begin, Clock::now()).changes >= kEnoughChanges) break;
    Clock::sleep_for(Clock::seconds(sampling_interval(record, 0)));
  } while (Clock::now() < end);
  return record;
}

std::string refresh_of(const Record& record) {
  const double refresh = record.refresh();
  if (refresh == 0) return "> 1 s";
  return refresh < 1 ? fmt::format("{:.0f} ms", 1000 * refresh) : fmt::format("{:.1f} s", refresh);
}

/// A line for wraps and gaps among the readings; an empty text where there were none.
std::string irregularities_of(const Record& record) {
  const Measurement all = record.between(Clock::now() - Clock::seconds(kObservedSeconds + 1), Clock::now());
  if (all.wraps == 0 && all.gaps == 0) return "";
  return fmt::format("    while it was observed: {} wraps of counters, {} gaps between readings ({:.2g} s)\n",
                     all.wraps, all.gaps, all.gap_seconds);
}

std::string line_of(MeterRow& row) {
  const MeterInfo& info = row.info;
  const std::string begin = fmt::format("{} {:<22} {:<18}", row.chosen ? '*' : ' ', info.name, info.device);
  if (row.meter == nullptr) return fmt::format("{} {}\n    unusable: {}\n", begin, info.source, row.unusable);
  const Record record = observed(row);
  const auto watts = record.watts_now();
  const std::string power = watts ? fmt::format("{:.1f} W", *watts) : "-";
  std::string line = fmt::format("{} {:<8} {:<9} {:>7} {:>9}  {}\n", begin, name_of(info.scope), name_of(info.origin),
                                 refresh_of(record), power, info.source);
  line += irregularities_of(record);
  if (!record.trouble().empty()) line += fmt::format("    last reading: {}\n", record.trouble());
  return line;
}

}  // namespace

std::string meter_list(const Machine& machine, const std::vector<std::string>& named) {
  std::vector<MeterRow> rows = list_meters(machine, named);
  std::string text;
  if (!rows.empty()) {
    text = fmt::format("  {:<22} {:<18} {:<8} {:<9} {:>7} {:>9}  {}\n", "meter", "device", "scope", "values", "refresh",
                       "now", "source");
  }
  for (MeterRow& row : rows) text += line_of(row);
  const bool chosen = std::ranges::any_of(rows, [](const MeterRow& row) { return row.chosen; });
  text += chosen ? "* The meter is taken for its device unless --meter names another.\n"
                 : "No meter of this machine can be used, so its energy is not measurable.\n";
  const std::vector<std::string> missing = sources_not_found(rows);
  if (!missing.empty()) text += fmt::format("Nothing was found of: {}.\n", fmt::join(missing, ", "));
  return text + "Plugs and files are named: --meter shelly:ADDRESS, tasmota:ADDRESS or csv:FILE (docs/energy.md).\n";
}

}  // namespace convoy::energy
