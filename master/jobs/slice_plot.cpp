#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "master/jobs/trial_report.hpp"

namespace convoy {
namespace {

constexpr int kPanelWidth = 420;
constexpr int kPanelHeight = 340;
constexpr int kMostColumns = 3;

/// A text for gnuplot, without what its strings cannot hold.
std::string plot_text(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : printable(text, 60)) quoted += letter == '\'' ? "''" : std::string(1, letter);
  return quoted + "'";
}

/// The place of a value on the horizontal axis: the value itself, or the number of a choice.
std::string place_on_axis(const SearchedField& parameter, const std::string& value) {
  if (parameter.kind != SearchedField::Kind::choice) return value;
  return fmt::format("{}", std::ranges::find(parameter.choices, value) - parameter.choices.begin());
}

/// A data block for each parameter: place, metric, rung. A trial without a result has no metric, which is the word NaN.
std::string data_block(const Space& space, std::size_t parameter, const RungResults& results) {
  std::string block = fmt::format("$slice{} << EOD\n", parameter);
  for (const RungResult& each : results) {
    const double metric = space.metric == Metric::accuracy ? 100.0 * each.accuracy : each.loss;
    block += fmt::format("{} {} {}\n", place_on_axis(space.parameters[parameter], each.setting[parameter]),
                         each.outcome == TrialOutcome::finished ? fmt::format("{}", metric) : "NaN", each.rung + 1);
  }
  return block + "EOD\n";
}

std::string axis(const SearchedField& parameter) {
  std::string lines =
      fmt::format("set xlabel {} noenhanced\nunset logscale x\nset xtics auto\n", plot_text(parameter.name));
  if (parameter.kind == SearchedField::Kind::choice) {
    lines += fmt::format("set xrange [-0.5:{}]\nset xtics (", static_cast<double>(parameter.choices.size()) - 0.5);
    for (std::size_t i = 0; i < parameter.choices.size(); ++i) {
      lines += fmt::format("{}{} {}", i > 0 ? ", " : "", plot_text(parameter.choices[i]), i);
    }
    return lines + ") noenhanced\n";
  }
  if (parameter.kind == SearchedField::Kind::log) lines += "set logscale x\n";
  return lines + fmt::format("set xrange [{}:{}]\n", parameter.low, parameter.high);
}

}  // namespace

std::string slice_script(const Space& space, const Ladder& ladder, const RungResults& results) {
  const auto panels = static_cast<int>(space.parameters.size());
  const int columns = std::min(panels, kMostColumns);
  const int rows = (panels + columns - 1) / columns;
  std::string script = "# Draws the results of a search: gnuplot slices.gnuplot\n";
  for (std::size_t i = 0; i < space.parameters.size(); ++i) script += data_block(space, i, results);
  script += fmt::format("set terminal pngcairo size {},{}\nset output 'slices.png'\n", columns * kPanelWidth + 80,
                        rows * kPanelHeight);
  script += fmt::format("set multiplot layout {},{}\nset grid\nunset key\nset datafile missing 'NaN'\n", rows, columns);
  script += fmt::format("set ylabel '{}'\n", space.metric == Metric::accuracy ? "test accuracy (%)" : "test loss");
  // The colour tells the rung. A single rung would make an empty range of colours.
  script += fmt::format("set palette defined (0 '#9ecae1', 1 '#08306b')\nset cbrange [1:{}]\nset cblabel 'rung'\n",
                        std::max(2, ladder.top() + 1));
  if (ladder.top() == 0) script += "unset colorbox\n";
  for (std::size_t i = 0; i < space.parameters.size(); ++i) {
    script += axis(space.parameters[i]);
    script += fmt::format(
        "plot $slice{0} using 1:2:3 with points pointtype 7 palette, \\\n"
        "     $slice{0} using 1:(strcol(2) eq 'NaN' ? 0.02 : 1/0) axes x1y2 with points pointtype 2 linecolor "
        "'#d62728'\n",
        i);
  }
  return script + "unset multiplot\n";
}

}  // namespace convoy
