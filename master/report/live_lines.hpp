// Lines of text on a stream: lines that stay, and below them, on a terminal, live lines that are redrawn in place.
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

/// Where text for people goes.
struct TextOutput {
  std::FILE* to = stdout;
  std::function<std::optional<TerminalSize>()> size;  ///< the size at present; gives nothing where `to` is no terminal
  double seconds_between = 10.0;                      ///< least seconds between two reports of progress
};

/// Standard output: on a terminal five reports a second, in a pipe one in ten seconds.
TextOutput standard_output();

/// Columns that a text in UTF-8 takes, each code point being as wide as a letter.
std::size_t width_of(const std::string& text);

class LiveLines {
 public:
  explicit LiveLines(TextOutput output) : output_(std::move(output)) {}
  /// Leaves the live lines where they are; what follows begins on a line of its own.
  ~LiveLines();
  LiveLines(const LiveLines&) = delete;
  LiveLines& operator=(const LiveLines&) = delete;

  /// The terminal's size at present; nothing in a pipe.
  std::optional<TerminalSize> size() const { return output_.size ? output_.size() : std::nullopt; }
  const TextOutput& output() const { return output_; }
  /// Writes a line that stays, above the live ones, which vanish until they are shown again.
  void line(const std::string& text);
  /// Shows these lines in place of the live ones, each cut to the terminal's columns, and as many as it has rows for. In a
  /// pipe they are lines that stay.
  void show(const std::vector<std::string>& lines);

 private:
  /// What takes the cursor to the first live line and clears all of them.
  std::string cleared() const;

  TextOutput output_;
  std::vector<std::size_t> widths_;  ///< of the live lines, the cursor being at the end of the last
};

}  // namespace convoy
