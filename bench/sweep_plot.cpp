#include "bench/sweep_plot.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <set>

#include "core/files.hpp"
#include "master/report/gnuplot.hpp"

namespace convoy {
namespace {

/// A parameter that a sweep varies, for the x axis.
struct Axis {
  const char* name;
  const char* label;
  std::function<std::string(const SweepPoint&)> value;
  bool number;
};

const std::vector<Axis>& axes() {
  static const std::vector<Axis> all{
      {"slaves", "slaves", [](const SweepPoint& p) { return std::to_string(p.slaves); }, true},
      {"batch", "images per batch", [](const SweepPoint& p) { return std::to_string(p.batch); }, true},
      {"filters", "filters", [](const SweepPoint& p) { return p.filters; }, false},
      {"bandwidth", "Mbit/s", [](const SweepPoint& p) { return fmt::format("{:g}", p.mbits); }, true},
      {"exchange", "exchange", [](const SweepPoint& p) { return p.exchange; }, false},
      {"wire", "wire", [](const SweepPoint& p) { return p.wire; }, false}};
  return all;
}

/// A measured quantity, for the y axis.
struct Quantity {
  const char* name;
  const char* label;
  double (*value)(const SweepPoint&);
};

constexpr Quantity kQuantities[] = {
    {"speedup", "speedup over one machine", [](const SweepPoint& p) { return p.alone / p.seconds; }},
    {"seconds", "seconds per step", [](const SweepPoint& p) { return p.seconds; }},
    {"energy", "J/image", [](const SweepPoint& p) { return p.joules_per_image; }},
    {"memory", "peak memory of the master / MiB", [](const SweepPoint& p) { return p.master_mib; }}};

std::size_t values_of(const Axis& axis, const std::vector<SweepPoint>& points) {
  std::set<std::string> values;
  for (const SweepPoint& point : points) values.insert(axis.value(point));
  return values.size();
}

/// Returns a gnuplot script with a line for each combination of the other parameters.
std::string script_of(const Axis& x, const Quantity& y, const std::vector<SweepPoint>& points,
                      const std::string& picture) {
  std::map<std::string, std::string> lines;
  for (const SweepPoint& point : points) {
    std::vector<std::string> rest;
    for (const Axis& axis : axes()) {
      if (axis.name == x.name || values_of(axis, points) < 2) continue;
      rest.push_back(axis.number ? fmt::format("{} {}", axis.value(point), axis.label) : axis.value(point));
    }
    lines[fmt::format("{}", fmt::join(rest, ", "))] += fmt::format("{} {:.6g}\n", x.value(point), y.value(point));
  }
  std::string data;
  std::string plots;
  int index = 0;
  for (const auto& [title, rows] : lines) {
    data += fmt::format("$line{} << END\n{}END\n", index, rows);
    plots += fmt::format("{}$line{} using {} with linespoints title '{}'", plots.empty() ? "" : ", \\\n     ", index,
                         x.number ? "1:2" : "0:2:xticlabels(1)", title);
    ++index;
  }
  return fmt::format(
      "{}set terminal pngcairo size 900,600\nset output '{}'\nset xlabel '{}'\nset ylabel '{}'\nset yrange [0:*]\n"
      "set grid\nset key outside bottom center horizontal\n{}plot {}\n",
      data, picture, x.label, y.label, x.number ? "set logscale x 2\n" : "", plots);
}

}  // namespace

std::string csv_header() {
  return "filters,batch,slaves,mbits,exchange,wire,seconds,low,high,alone,speedup,working,master_mib,slave_mib,plan,"
         "joules_per_image,watts_not_known";
}

std::string csv_row(const SweepPoint& p) {
  return fmt::format("{},{},{},{:g},{},{},{:.6f},{:.6f},{:.6f},{:.6f},{:.4f},{},{:.1f},{:.1f},\"{}\",{},{}", p.filters,
                     p.batch, p.slaves, p.mbits, p.exchange, p.wire, p.seconds, p.low, p.high, p.alone,
                     p.alone / p.seconds, p.working, p.master_mib, p.slave_mib, p.plan,
                     p.joules_per_image > 0.0 ? fmt::format("{:.6g}", p.joules_per_image) : "", p.watts_not_known);
}

std::string draw_sweep(const std::vector<SweepPoint>& points, const std::string& folder) {
  std::vector<std::string> pictures;
  bool drawn = true;
  for (const Axis& x : axes()) {
    if (values_of(x, points) < 2) continue;
    for (const Quantity& y : kQuantities) {
      if (y.value(points.front()) == 0.0) continue;
      const std::string name = fmt::format("{}-by-{}", y.name, x.name);
      write_text(fmt::format("{}/{}.gnuplot", folder, name), script_of(x, y, points, name + ".png"));
      drawn = run_gnuplot(folder, name + ".gnuplot") && drawn;
      pictures.push_back(name + (drawn ? ".png" : ".gnuplot"));
    }
  }
  if (pictures.empty()) return "no parameter has several values, so there is nothing to plot";
  return fmt::format("{}{}", fmt::join(pictures, ", "), drawn ? "" : " (gnuplot is not installed, or failed)");
}

}  // namespace convoy
