#include "master/report/test_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "master/report/live_lines.hpp"

namespace convoy {
namespace {

constexpr int kMostInTable = 20;
constexpr std::size_t kMostPairs = 10;
constexpr std::size_t kColumns = 79;
constexpr std::size_t kNameColumns = 18;
constexpr int kMostInMatrix = 100;           ///< limit in JSON
constexpr std::size_t kMostMistakes = 1000;  ///< limit in JSON

double percent(long part, long whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

/// Cuts a text to `columns` columns, or fills it up with spaces.
std::string in_columns(const std::string& text, std::size_t columns) {
  std::string shown;
  std::size_t width = 0;
  for (const char byte : text) {
    const std::size_t wider = width + width_of(std::string(1, byte));
    if (wider > columns) break;
    shown += byte;
    width = wider;
  }
  return shown + std::string(columns - width, ' ');
}

/// The classes that have images, in their order. If there are too many for the table, only the worst, the worst first.
std::vector<int> shown_classes(const Confusion& confusion) {
  std::vector<int> classes(static_cast<std::size_t>(confusion.classes()));
  std::iota(classes.begin(), classes.end(), 0);
  std::erase_if(classes, [&](int c) { return confusion.images(c) == 0; });
  if (classes.size() <= kMostInTable) return classes;
  std::ranges::stable_sort(classes, {}, [&](int c) { return percent(confusion.count(c, c), confusion.images(c)); });
  classes.resize(kMostInTable);
  return classes;
}

void add_table(const Confusion& confusion, const std::vector<std::string>& names, std::vector<std::string>& lines) {
  const std::vector<int> classes = shown_classes(confusion);
  if (confusion.classes() > kMostInTable) lines.push_back(fmt::format("the {} worst classes:", classes.size()));
  lines.push_back(in_columns("class", kNameColumns) + "  images  accuracy  precision  most often taken for");
  const std::vector<Confusion::Mistake> mistakes = confusion.mistakes();
  for (const int c : classes) {
    const auto worst = std::ranges::find(mistakes, c, &Confusion::Mistake::label);
    const std::string taken =
        worst == mistakes.end() ? "" : fmt::format("{} ({})", class_name(names, worst->answer), worst->images);
    const std::string precision =
        confusion.answers(c) == 0 ? "-" : fmt::format("{:.1f} %", percent(confusion.count(c, c), confusion.answers(c)));
    lines.push_back(in_columns(
        fmt::format("{}  {:>6}  {:>6.1f} %  {:>9}  {}", in_columns(class_name(names, c), kNameColumns),
                    confusion.images(c), percent(confusion.count(c, c), confusion.images(c)), precision, taken),
        kColumns));
  }
}

/// Adds the lines of the confusion matrix. Returns false if it is too wide.
bool add_matrix(const Confusion& confusion, const std::vector<std::string>& names, std::vector<std::string>& lines) {
  long most = 0;
  for (int c = 0; c < confusion.classes(); ++c) most = std::max(most, confusion.images(c));
  const std::size_t cell = std::max<std::size_t>(fmt::format("{}", most).size(), 3) + 2;
  if (kNameColumns + cell * static_cast<std::size_t>(confusion.classes()) > kColumns) return false;
  lines.emplace_back("confusion matrix in images: a row for each class, a column for each answer");
  std::string head(kNameColumns, ' ');
  for (int c = 0; c < confusion.classes(); ++c) {
    const bool named = static_cast<std::size_t>(c) < names.size();
    head += "  " + in_columns(named ? class_name(names, c) : fmt::format("{:>{}}", c, cell - 2), cell - 2);
  }
  lines.push_back(head);
  for (int label = 0; label < confusion.classes(); ++label) {
    std::string row = in_columns(class_name(names, label), kNameColumns);
    for (int answer = 0; answer < confusion.classes(); ++answer) {
      row += fmt::format("{:>{}}", confusion.count(label, answer), cell);
    }
    lines.push_back(row);
  }
  return true;
}

void add_pairs(const Confusion& confusion, const std::vector<std::string>& names, std::vector<std::string>& lines) {
  const std::vector<Confusion::Mistake> mistakes = confusion.mistakes();
  if (mistakes.empty()) return;
  lines.emplace_back("most often confused:");
  for (std::size_t i = 0; i < std::min(mistakes.size(), kMostPairs); ++i) {
    const Confusion::Mistake& each = mistakes[i];
    lines.push_back(fmt::format("  {:>5} of {} images of {} taken for {}", each.images, confusion.images(each.label),
                                class_name(names, each.label), class_name(names, each.answer)));
  }
}

}  // namespace

std::string class_name(const std::vector<std::string>& names, int number) {
  const auto at = static_cast<std::size_t>(number);
  return at < names.size() ? names[at] : fmt::format("class {}", number);
}

std::vector<std::string> lines_of(const Confusion& confusion, const std::vector<std::string>& names) {
  std::vector<std::string> lines;
  add_table(confusion, names, lines);
  if (!add_matrix(confusion, names, lines)) add_pairs(confusion, names, lines);
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  return lines;
}

nlohmann::ordered_json to_json(const Confusion& confusion, const std::vector<std::string>& names) {
  nlohmann::ordered_json json;
  json["classes"] = nlohmann::ordered_json::array();
  for (int c = 0; c < confusion.classes(); ++c) {
    json["classes"].push_back({{"class", c},
                               {"name", class_name(names, c)},
                               {"images", confusion.images(c)},
                               {"correct", confusion.count(c, c)},
                               {"answers", confusion.answers(c)}});
  }
  json["mistakes"] = nlohmann::ordered_json::array();
  for (const Confusion::Mistake& each : confusion.mistakes()) {
    if (json["mistakes"].size() == kMostMistakes) break;
    json["mistakes"].push_back({{"class", each.label}, {"answer", each.answer}, {"images", each.images}});
  }
  if (confusion.classes() > kMostInMatrix) return json;
  json["confusion"] = nlohmann::ordered_json::array();
  for (int label = 0; label < confusion.classes(); ++label) {
    auto row = nlohmann::ordered_json::array();
    for (int answer = 0; answer < confusion.classes(); ++answer) row.push_back(confusion.count(label, answer));
    json["confusion"].push_back(row);
  }
  return json;
}

}  // namespace convoy
