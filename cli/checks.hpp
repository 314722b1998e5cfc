// Checks of the values of options. Each error text names the value and the values that are expected.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace convoy {

/// Accepts a whole number from `low` to `high`, in decimal digits.
CLI::Validator whole_number(std::int64_t low, std::int64_t high);
/// Accepts a whole number from 0 to 2^64 - 1.
CLI::Validator any_whole_number();
/// Accepts a number from `low` to `high`.
CLI::Validator number(double low, double high);
/// Accepts a number greater than 0.
CLI::Validator positive_number();
/// Accepts one of these words.
CLI::Validator one_of(std::vector<std::string> words);
/// Accepts a text for which `read` throws no Error. The message of the Error becomes the error text.
CLI::Validator readable(const std::function<void(const std::string&)>& read);

}  // namespace convoy
