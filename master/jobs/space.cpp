#include "master/jobs/space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/text.hpp"

namespace convoy {
namespace {

/// The number that a text is; nothing for another text.
template <class T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The bounds of a linear or log range in the coordinate in which it is uniform.
std::pair<double, double> even_bounds(const SearchedField& parameter) {
  if (parameter.kind == SearchedField::Kind::log) return {std::log(parameter.low), std::log(parameter.high)};
  return {parameter.low, parameter.high};
}

bool within(const SearchedField& parameter, double value) {
  return value >= parameter.low && value <= parameter.high &&
         (parameter.kind != SearchedField::Kind::integer || value == std::floor(value));
}

/// Reads the net with one value, and turns the net's complaint into one about the space.
void try_value(const Space& space, const std::string& net, const Overrides& fixed, const SearchedField& parameter,
               const std::string& value) {
  Overrides overrides = fixed;
  overrides.push_back(fmt::format("{}={}", parameter.name, value));
  try {
    read_net(net, overrides);
  } catch (const Error& error) {
    fail("{} does not go together with the net at the value {}: {}; name a field of the net, with values that it takes",
         place_of(space, parameter), printable(value, 80), error.what());
  }
}

}  // namespace

bool Space::has(const std::string& parameter) const {
  return std::ranges::any_of(parameters, [&](const SearchedField& each) { return each.name == parameter; });
}

std::string place_of(const Space& space, const SearchedField& parameter) {
  return fmt::format("{}:{}: parameters {}", space.file, parameter.line, parameter.name);
}

Net net_with(const std::string& net, const Overrides& fixed, const Space& space, const TrialSetting& setting) {
  Overrides overrides = fixed;
  for (std::size_t i = 0; i < setting.size(); ++i) {
    overrides.push_back(fmt::format("{}={}", space.parameters[i].name, setting[i]));
  }
  return read_net(net, overrides);
}

void expect_in_net(const Space& space, const std::string& net, const Overrides& fixed) {
  for (const SearchedField& parameter : space.parameters) {
    for (const std::string& override : fixed) {
      if (override.substr(0, override.find('=')) != parameter.name) continue;
      fail("{} is set by --set {} already; leave out one of the two", place_of(space, parameter), override);
    }
    for (const std::string& value : ends_of(parameter)) try_value(space, net, fixed, parameter, value);
  }
}

std::vector<std::string> ends_of(const SearchedField& parameter) {
  if (parameter.kind == SearchedField::Kind::choice) return parameter.choices;
  return {value_at(parameter, 0.0), value_at(parameter, 1.0)};
}

long count_of(const SearchedField& parameter) {
  switch (parameter.kind) {
    case SearchedField::Kind::integer: return static_cast<long>(parameter.high - parameter.low) + 1;
    case SearchedField::Kind::choice: return static_cast<long>(parameter.choices.size());
    default: return 0;
  }
}

std::string value_at(const SearchedField& parameter, double unit) {
  if (const long count = count_of(parameter); count > 0) {
    const long index = std::clamp(static_cast<long>(unit * static_cast<double>(count)), 0L, count - 1);
    if (parameter.kind == SearchedField::Kind::choice) return parameter.choices[index];
    return fmt::format("{}", static_cast<long>(parameter.low) + index);
  }
  const auto [low, high] = even_bounds(parameter);
  const double even = low + unit * (high - low);
  const double exact = parameter.kind == SearchedField::Kind::log ? std::exp(even) : even;
  const std::string text = fmt::format("{:.6g}", exact);
  const double rounded = number_in<double>(text).value_or(exact);
  if (rounded < parameter.low) return fmt::format("{}", parameter.low);
  if (rounded > parameter.high) return fmt::format("{}", parameter.high);
  return text;
}

double unit_of(const SearchedField& parameter, const std::string& value) {
  const long count = count_of(parameter);
  std::optional<double> unit;
  if (parameter.kind == SearchedField::Kind::choice) {
    const auto found = std::ranges::find(parameter.choices, value);
    if (found != parameter.choices.end()) {
      unit = (static_cast<double>(found - parameter.choices.begin()) + 0.5) / static_cast<double>(count);
    }
  } else if (const auto number = number_in<double>(value); number && within(parameter, *number)) {
    const auto [low, high] = even_bounds(parameter);
    const double even = parameter.kind == SearchedField::Kind::log ? std::log(*number) : *number;
    // The ends of a very narrow log range may have the same logarithm.
    const double length = count > 0 ? static_cast<double>(count) : high - low;
    unit = length > 0.0 ? (even - low + (count > 0 ? 0.5 : 0.0)) / length : 0.5;
  }
  if (!unit) fail("{} is {}, which is not a value of its range", parameter.name, printable(value, 80));
  return std::clamp(*unit, 0.0, 1.0);
}

std::string text_of(const Space& space, const TrialSetting& setting) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < setting.size(); ++i) {
    texts.push_back(fmt::format("{}={}", space.parameters[i].name, setting[i]));
  }
  return fmt::format("{}", fmt::join(texts, " "));
}

}  // namespace convoy
