// Writes lines of text to a stream: permanent lines and, below them on a terminal, live lines that are redrawn in
// place.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace convoy {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

/// The output for text for people.
struct TextOutput {
  std::FILE* to = stdout;
  std::function<std::optional<TerminalSize>()> size;  ///< returns the current size, or nothing if `to` is no terminal
  double seconds_between = 10.0;                      ///< minimum time between two progress reports
};

/// Standard output, with up to five progress reports a second on a terminal, otherwise one every ten seconds.
TextOutput standard_output();

/// The number of columns of a text in UTF-8, counting one column for each code point.
std::size_t width_of(const std::string& text);

class LiveLines {
 public:
  explicit LiveLines(TextOutput output) : output_(std::move(output)) {}
  /// Ends the last live line, so that later output begins on a new line.
  ~LiveLines();
  LiveLines(const LiveLines&) = delete;
  LiveLines& operator=(const LiveLines&) = delete;

  /// The current size of the terminal; nothing if the output is no terminal.
  std::optional<TerminalSize> size() const { return output_.size ? output_.size() : std::nullopt; }
  const TextOutput& output() const { return output_; }
  /// Writes a permanent line in place of the live lines. The live lines disappear until the next show().
  void line(const std::string& text);
  /// Replaces the live lines. They are cut to the size of the terminal. If the output is no terminal, writes permanent
  /// lines.
  void show(const std::vector<std::string>& lines);

 private:
  /// The control sequence that moves the cursor to the first live line and clears all live lines.
  std::string cleared() const;

  TextOutput output_;
  std::vector<std::size_t> widths_;  ///< widths of the live lines; the cursor is at the end of the last one
};

}  // namespace convoy
