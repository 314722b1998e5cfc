#include "study/stage_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "core/error.hpp"
#include "core/text.hpp"

namespace convoy::study {
namespace {

constexpr std::size_t kMostStages = 1000;
constexpr int kMostNumber = 1 << 20;
/// Floats of the largest tensor of an image or of a stage's weights; larger ones would overflow sizes further on.
constexpr double kMostFloats = 1 << 28;

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (auto end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// Reads the numbers of "3x32x32"; none if the text is anything else.
std::vector<int> numbers_in(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& part : parts_of(text, 'x')) {
    int number = 0;
    const char* const end = part.data() + part.size();
    const auto [rest, fault] = std::from_chars(part.data(), end, number);
    if (part.empty() || fault != std::errc{} || rest != end || number < 0 || number > kMostNumber) return {};
    numbers.push_back(number);
  }
  return numbers;
}

[[noreturn]] void refuse(const std::string& word) {
  fail(
      "'{}' is no convolution; write CHANNELSxHEIGHTxWIDTH:FILTERSxROWSxCOLUMNS with numbers up to {}, and after it, "
      "if "
      "needed, :sSTRIDE, :pPADDING, :dDILATION and :gGROUPS, as in 64x56x56:128x3x3:s2:p1",
      printable(word, 80), kMostNumber);
}

/// Sets what a part such as "s2", "p1" or "g32" says.
void set(Convolution& conv, const std::string& part, const std::string& word) {
  if (part.empty()) refuse(word);
  const std::vector<int> n = numbers_in(part.substr(1));
  if (part[0] == 's' && (n.size() == 1 || n.size() == 2)) {
    conv.stride_h = n.front();
    conv.stride_w = n.back();
  } else if (part[0] == 'p' && n.size() == 1) {
    conv.pad = {n[0], n[0], n[0], n[0]};
  } else if (part[0] == 'p' && n.size() == 4) {
    conv.pad = {n[0], n[1], n[2], n[3]};
  } else if (part[0] == 'd' && (n.size() == 1 || n.size() == 2)) {
    conv.dilation_h = n.front();
    conv.dilation_w = n.back();
  } else if (part[0] == 'g' && n.size() == 1) {
    conv.groups = n[0];
  } else {
    refuse(word);
  }
}

double product(const std::vector<int>& numbers) {
  double all = 1;
  for (const int number : numbers) all *= number;
  return all;
}

Stage stage_from(const std::string& word, std::size_t number) {
  const std::vector<std::string> parts = parts_of(word, ':');
  if (parts.size() < 2) refuse(word);
  const std::vector<int> maps = numbers_in(parts[0]);
  const std::vector<int> filters = numbers_in(parts[1]);
  if (maps.size() != 3 || filters.size() != 3) refuse(word);
  Stage stage{.name = fmt::format("conv{}", number + 1),
              .channels = maps[0],
              .height = maps[1],
              .width = maps[2],
              .conv = {.filters = filters[0], .kernel_h = filters[1], .kernel_w = filters[2]},
              .after = {}};
  for (std::size_t i = 2; i < parts.size(); ++i) set(stage.conv, parts[i], word);
  if (product(maps) > kMostFloats || product(filters) * maps[0] > kMostFloats ||
      product({maps[1], maps[2], filters[0]}) > kMostFloats) {
    fail("'{}' is too large; its maps and its weights have at most {:.0f} numbers each", printable(word, 80),
         kMostFloats);
  }
  try {
    validate(stage);
  } catch (const Error& error) {
    fail("'{}': {}", printable(word, 80), error.what());
  }
  return stage;
}

}  // namespace

std::vector<Stage> stages_from(const std::string& text) {
  std::vector<Stage> stages;
  for (const std::string& word : parts_of(text, ',')) {
    if (stages.size() == kMostStages) fail("there are more than {} convolutions; leave some out", kMostStages);
    stages.push_back(stage_from(word, stages.size()));
  }
  return stages;
}

std::string text_of(const std::vector<Stage>& stages) {
  std::vector<std::string> words;
  for (const Stage& stage : stages) {
    if (stage.kind != StageKind::convolution) continue;
    const Convolution& c = stage.conv;
    std::string word =
        fmt::format("{}x{}x{}:{}x{}x{}", stage.channels, stage.height, stage.width, c.filters, c.kernel_h, c.kernel_w);
    if (c.stride_h != c.stride_w) {
      word += fmt::format(":s{}x{}", c.stride_h, c.stride_w);
    } else if (c.stride_h != 1) {
      word += fmt::format(":s{}", c.stride_h);
    }
    const Padding& p = c.pad;
    if (p != Padding{p.top, p.top, p.top, p.top}) {
      word += fmt::format(":p{}x{}x{}x{}", p.top, p.left, p.bottom, p.right);
    } else if (p.top != 0) {
      word += fmt::format(":p{}", p.top);
    }
    if (c.dilation_h != c.dilation_w) {
      word += fmt::format(":d{}x{}", c.dilation_h, c.dilation_w);
    } else if (c.dilation_h != 1) {
      word += fmt::format(":d{}", c.dilation_h);
    }
    if (c.groups != 1) word += fmt::format(":g{}", c.groups);
    words.push_back(word);
  }
  return fmt::format("{}", fmt::join(words, ","));
}

std::string filters_of(const std::vector<Stage>& stages) {
  std::vector<int> counts;
  for (const Stage& stage : stages) {
    if (stage.kind == StageKind::convolution) counts.push_back(stage.conv.filters);
  }
  return fmt::format("{}", fmt::join(counts, ":"));
}

}  // namespace convoy::study
