// Checks of the values that options take. Each refuses a value in a sentence of Convoy's own and names what it expects.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// A whole number from `low` to `high`, in decimal digits.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);
/// A whole number from 0 to 2^64 - 1.
CLI::Validator any_whole_number();
/// A number from `low` to `high`.
CLI::Validator number(double low, double high);
/// A number greater than 0.
CLI::Validator positive_number();
/// One of these words.
CLI::Validator one_of(std::vector<std::string> words);
/// A text that `read` takes; the message of an Error that it throws becomes the refusal.
CLI::Validator readable(const std::function<void(const std::string&)>& read);

}  // namespace convoy
