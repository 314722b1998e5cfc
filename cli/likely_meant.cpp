#include "cli/likely_meant.hpp"

#include <algorithm>
#include <string_view>

#include "core/text.hpp"

namespace convoy {
namespace {

std::string_view without_dashes(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word;
}

}  // namespace

std::string likely_meant(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestWord = 64;
  const std::string_view typed = without_dashes(word);
  if (typed.size() > kLongestWord) return "";
  std::string best;
  std::size_t fewest = 0;
  for (const std::string& candidate : candidates) {
    const std::string_view meant = without_dashes(candidate);
    const std::size_t errors = typing_errors(typed, meant);
    if (3 * errors >= std::max(typed.size(), meant.size())) continue;
    if (best.empty() || errors < fewest) {
      best = candidate;
      fewest = errors;
    }
  }
  return best;
}

}  // namespace convoy
