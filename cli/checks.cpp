#include "cli/checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "cli/likely_meant.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace convoy {
namespace {

/// Parses a number. Returns nothing if the text is not a number, or has other characters after it.
template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

template <class T>
CLI::Validator within(const std::string& kind, T low, T high, const std::string& help) {
  const auto check = [=](const std::string& text) -> std::string {
    const std::optional<T> value = number_in<T>(text);
    if (value && *value >= low && *value <= high) return "";
    return fmt::format("'{}' is not {} from {} to {}", printable(text), kind, low, high);
  };
  return {[check](std::string& text) { return check(text); }, help};
}

}  // namespace

CLI::Validator whole_number(std::int64_t low, std::int64_t high) {
  return within<std::int64_t>("a whole number", low, high, fmt::format("{} to {}", low, high));
}

CLI::Validator any_whole_number() {
  return within<std::uint64_t>("a whole number", 0, std::numeric_limits<std::uint64_t>::max(), "");
}

CLI::Validator number(double low, double high) { return within<double>("a number", low, high, ""); }

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    const std::optional<double> value = number_in<double>(text);
    if (value && *value > 0.0 && *value < std::numeric_limits<double>::infinity()) return "";
    return fmt::format("'{}' is not a number greater than 0", printable(text));
  };
  return {check, ""};
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string help = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto check = [words = std::move(words)](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return "";
    const std::string meant = likely_meant(text, words);
    if (!meant.empty()) return fmt::format("'{}' is not known; did you mean {}?", printable(text), meant);
    return fmt::format("'{}' is not known; choose one of: {}", printable(text), fmt::join(words, ", "));
  };
  return {[check](std::string& text) { return check(text); }, help};
}

CLI::Validator readable(const std::function<void(const std::string&)>& read) {
  const auto check = [read](std::string& text) -> std::string {
    try {
      read(text);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  return {check, ""};
}

}  // namespace convoy
