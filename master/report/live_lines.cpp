#include "master/report/live_lines.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "core/output.hpp"

namespace convoy {
namespace {

std::optional<TerminalSize> size_of_stdout() {
  if (isatty(STDOUT_FILENO) != 1) return std::nullopt;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return TerminalSize{};
  return TerminalSize{size.ws_col, size.ws_row};
}

bool begins_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

/// Returns the first `columns` code points of a text.
std::string cut_to(const std::string& text, std::size_t columns) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_code_point(text[i]) && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

TextOutput standard_output() {
  const bool terminal = size_of_stdout().has_value();
  return {.to = stdout, .size = size_of_stdout, .seconds_between = terminal ? 0.2 : 10.0};
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_code_point));
}

LiveLines::~LiveLines() {
  if (widths_.empty()) return;
  put(output_.to, "\n");
}

std::string LiveLines::cleared() const {
  if (widths_.empty()) return "";
  const std::optional<TerminalSize> now = size();
  const std::size_t columns = now ? std::max<std::size_t>(now->columns, 1) : 80;
  // If the terminal has become narrower, it has wrapped the live lines, so that they take more rows.
  std::size_t rows = 0;
  for (const std::size_t width : widths_) rows += std::max<std::size_t>((width + columns - 1) / columns, 1);
  return rows > 1 ? fmt::format("\r\x1b[{}A\x1b[J", rows - 1) : "\r\x1b[J";
}

void LiveLines::line(const std::string& text) {
  put(output_.to, fmt::format("{}{}\n", cleared(), text));
  widths_.clear();
}

void LiveLines::show(const std::vector<std::string>& lines) {
  const std::optional<TerminalSize> now = size();
  if (!now) {
    for (const std::string& each : lines) line(each);
    return;
  }
  std::string text = cleared();
  widths_.clear();
  // Some terminals scroll when the last column or row is filled, so both stay empty.
  const std::size_t columns = std::max<std::size_t>(now->columns, 2) - 1;
  const std::size_t most = std::max<std::size_t>(now->rows, 2) - 1;
  for (std::size_t i = 0; i < std::min(lines.size(), most); ++i) {
    const bool more = i + 1 == most && lines.size() > most;
    const std::string shown = cut_to(more ? fmt::format("  and {} more", lines.size() - i) : lines[i], columns);
    text += (i > 0 ? "\n" : "") + shown;
    widths_.push_back(width_of(shown));
  }
  put(output_.to, text);
}

}  // namespace convoy
