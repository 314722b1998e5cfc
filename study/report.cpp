#include "study/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace convoy::study {
namespace {

/// A value and its half-width as two fields of CSV; two empty fields for nothing.
std::string fields(const std::optional<Estimate>& estimate) {
  return estimate ? fmt::format("{:.6g},{:.3g}", estimate->value, estimate->error) : ",";
}

/// A text as a field of CSV.
std::string quoted(const std::string& text) {
  std::string field = "\"";
  for (const char letter : text) {
    field += letter;
    if (letter == '"') field += '"';
  }
  return field + '"';
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

bool has_energy(const Row& row) { return row.result.image_joules && !row.result.assumed; }

/// The origin of a row's joules: "measured", "smoothed", "modelled", "assumed", or "none".
std::string origin_of(const Row& row) {
  if (row.result.assumed) return "assumed";
  if (!has_energy(row) || !row.meter) return "none";
  return std::string(name_of(row.meter->origin));
}

std::string csv_row(const Row& row, bool on_front) {
  const Result& r = row.result;
  const std::string meter =
      has_energy(row) ? fmt::format("{},{},{:.4g}", row.meter->name, name_of(row.meter->scope), r.refresh) : ",,";
  std::optional<Estimate> speed;
  std::optional<Estimate> gross;
  std::optional<Estimate> above;
  std::optional<Estimate> joules;
  double seconds = 0;
  double images = 0;
  for (const Trial& trial : r.trials) {
    seconds += trial.seconds;
    images += trial.images;
    if (!r.image_joules || !trial.joules) continue;
    joules = Estimate{(joules ? joules->value : 0) + trial.joules->value,
                      (joules ? joules->error : 0) + trial.joules->error};
  }
  if (r.image_seconds) speed = r.images_per_second();
  if (r.image_joules) gross = r.gflops_per_watt(*r.image_joules);
  if (r.image_above_idle) above = r.gflops_per_watt(*r.image_above_idle);
  return fmt::format("{},{},{},{},{},{},{},{:.3f},{:.0f},{},{},{},{},{},{},{},{},{},{}\n", row.device, row.batch,
                     row.filters, name_of(r.ending), origin_of(row), meter, r.trials.size(), seconds, images,
                     fields(speed), fields(joules), fields(r.image_joules), fields(gross), fields(r.idle_watts),
                     fields(r.image_above_idle), fields(above), on_front ? 1 : 0, quoted(r.refusal), quoted(r.no_idle));
}

/// A text between gnuplot's single quotes.
std::string in_quotes(const std::string& text) {
  std::string safe;
  for (const char letter : text) safe += letter == '\'' ? '"' : letter;
  return safe;
}

/// The name of a row's series in the plot.
std::string series_of(const Row& row) {
  if (row.result.assumed) return row.device + " (assumed power)";
  return fmt::format("{} ({}, {}, {})", row.device, row.meter->name, name_of(row.meter->scope),
                     name_of(row.meter->origin));
}

}  // namespace

std::vector<bool> pareto_front(const std::vector<Row>& rows) {
  std::vector<bool> front;
  for (const Row& row : rows) {
    const auto beats = [&](const Row& other) {
      if (!has_energy(other)) return false;
      const double seconds = other.result.image_seconds->value - row.result.image_seconds->value;
      const double joules = other.result.image_joules->value - row.result.image_joules->value;
      return seconds <= 0 && joules <= 0 && (seconds < 0 || joules < 0);
    };
    front.push_back(has_energy(row) && std::ranges::none_of(rows, beats));
  }
  return front;
}

std::string table_head() {
  return fmt::format("{:<10} {:>5} {:<11}{:>10} {:>10} {:>7} {:>10} {:>10}\n{:<28}{:>10} {:>10} {:>7} {:>10} {:>10}\n",
                     "device", "batch", "filters", "images/s", "J/image", "+-", "J/image", "GFLOP/s/W", "", "", "", "",
                     "over idle", "");
}

std::string table_row(const Row& row, bool reason) {
  const Result& r = row.result;
  const auto number = [](bool known, double value) { return known ? fmt::format("{:.4g}", value) : std::string("-"); };
  const auto& joules = r.image_joules;
  std::string text =
      fmt::format("{:<10} {:>5} {:<11}{:>10} {:>10} {:>7} {:>10} {:>10}\n", shortened(row.device, 10), row.batch,
                  shortened(row.filters, 11),
                  number(r.image_seconds.has_value(), r.image_seconds ? r.images_per_second().value : 0),
                  number(joules.has_value(), joules ? joules->value : 0),
                  joules ? fmt::format("{:.1f} %", 100 * joules->error / joules->value) : "-",
                  number(r.image_above_idle.has_value(), r.image_above_idle ? r.image_above_idle->value : 0),
                  number(joules.has_value(), joules ? r.gflops_per_watt(*joules).value : 0));
  if (r.ending != Ending::narrow && r.ending != Ending::failed) {
    text += fmt::format("  {} after {} trial{}\n", name_of(r.ending), r.trials.size(), r.trials.size() == 1 ? "" : "s");
  }
  if (r.assumed) text += "  Joules are assumed (--assume-watts), not measured.\n";
  if (!reason) return text;
  if (!r.refusal.empty()) {
    text += fmt::format("  {}: {}\n", r.ending == Ending::failed ? "failed" : "energy not measurable", r.refusal);
  } else if (!r.no_idle.empty()) {
    text += fmt::format("  nothing above idle: {}\n", r.no_idle);
  }
  return text;
}

std::string csv_of(const std::vector<Row>& rows) {
  std::string text =
      "device,batch,filters,state,origin,meter,scope,refresh_s,trials,seconds,images,images_per_s,images_per_s_error,"
      "joules,joules_error,joules_per_image,joules_per_image_error,gflops_per_watt,gflops_per_watt_error,idle_watts,"
      "idle_watts_error,joules_per_image_above_idle,joules_per_image_above_idle_error,gflops_per_watt_above_idle,"
      "gflops_per_watt_above_idle_error,pareto,refusal,refusal_above_idle\n";
  const std::vector<bool> front = pareto_front(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) text += csv_row(rows[i], front[i]);
  return text;
}

std::string trials_csv_of(const std::vector<Row>& rows) {
  std::string text = "device,batch,filters,origin,trial,seconds,images,joules,joules_error,wraps,gaps,gap_seconds\n";
  for (const Row& row : rows) {
    int number = 0;
    for (const Trial& trial : row.result.trials) {
      const std::string joules =
          trial.joules ? fmt::format("{:.6g},{:.3g}", trial.joules->value, trial.joules->error) : ",";
      const std::string readings =
          has_energy(row) ? fmt::format("{},{},{:.3g}", trial.wraps, trial.gaps, trial.gap_seconds) : ",,";
      text += fmt::format("{},{},{},{},{},{:.6f},{:.0f},{},{}\n", row.device, row.batch, row.filters, origin_of(row),
                          ++number, trial.seconds, trial.images, joules, readings);
    }
  }
  return text;
}

std::string plot_of(const std::vector<Row>& rows, const std::string& picture) {
  std::map<std::string, std::string> series;
  const std::vector<bool> on_front = pareto_front(rows);
  std::string front;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Result& r = rows[i].result;
    if (!r.image_joules || !r.image_seconds) continue;
    const Estimate speed = r.images_per_second();
    const std::string point = fmt::format("{:.6g} {:.6g} {:.3g} \"{} x {}\"\n", speed.value, r.image_joules->value,
                                          r.image_joules->error, rows[i].filters, rows[i].batch);
    series[series_of(rows[i])] += point;
    if (on_front[i]) front += point;
  }
  if (series.empty()) return "";
  std::string data;
  std::string plots;
  int index = 0;
  for (const auto& [title, points] : series) {
    data += fmt::format("$series{} << END\n{}END\n", index, points);
    plots += fmt::format(
        "{0}$series{1} using 1:2:3 with yerrorbars pt {2} title '{3}', \\\n     $series{1} using "
        "1:2:4 with labels offset 0,1 font ',8' notitle",
        plots.empty() ? "" : ", \\\n     ", index, index % 6 + 4, in_quotes(title));
    ++index;
  }
  if (!front.empty()) {
    data += fmt::format("$front << END\n{}END\n", front);
    plots += ", \\\n     $front using 1:2 smooth unique with lines dt 2 lc 'black' title 'Pareto front'";
  }
  return fmt::format(
      "{}set terminal pngcairo size 900,600\nset output '{}'\nset xlabel 'images/s'\nset ylabel 'J/image'\n"
      "set logscale xy\nset offsets graph 0.1, graph 0.1, graph 0.1, graph 0.1\nset grid\n"
      "set key outside bottom center horizontal\nset title 'filters x batch'\nplot {}\n",
      data, picture, plots);
}

}  // namespace convoy::study
