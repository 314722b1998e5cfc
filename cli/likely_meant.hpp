// What a mistyped word was meant to be.
#pragma once

#include <string>
#include <vector>

namespace convoy {

/// The candidate that the fewest typing errors (a letter left out, added, replaced, or two swapped) turn into `word`;
/// leading dashes do not count. Empty where a third of the letters or more would have to change.
std::string likely_meant(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace convoy
