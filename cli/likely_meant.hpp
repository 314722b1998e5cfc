// Finds the word that a mistyped word was meant to be.
#pragma once

#include <string>
#include <vector>

namespace convoy {

/// Returns the candidate that the fewest typing errors turn into `word`. A typing error leaves a letter out, adds or
/// replaces one, or swaps two. Leading dashes do not count. Returns an empty text if for every candidate a third of the
/// letters or more would have to change.
std::string likely_meant(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace convoy
