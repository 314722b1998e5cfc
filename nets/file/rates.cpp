#include "nets/file/rates.hpp"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

namespace convoy {
namespace {

constexpr auto kMostOfRates = static_cast<double>(kLargestRate);

}  // namespace

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

LayerRates read_rates(Fields& training) {
  constexpr std::size_t kMostPatterns = 4096;
  constexpr std::size_t kLongest = 256;
  LayerRates rates{.patterns = {}};
  if (training.has("rate")) {
    const YAML::Node map = training.node("rate");
    if (!map.IsMap())
      training.fail("rate",
                    "is no map; expected factors by name of layer, as in {fc: 10, \"conv*\": 0.1}; the rate of all "
                    "layers is learning_rate");
    Fields factors = training.map("rate");
    for (const auto& entry : map) {
      const std::string pattern = entry.first.Scalar();
      rates.patterns.push_back({pattern, static_cast<float>(factors.number(pattern, 0.0, kMostOfRates))});
    }
  }
  if (training.has("freeze")) {
    const bool several = training.node("freeze").IsSequence();
    const std::vector<std::string> frozen =
        several ? training.texts("freeze", kMostPatterns) : std::vector<std::string>{training.text("freeze", kLongest)};
    for (const std::string& pattern : frozen) rates.patterns.push_back({pattern, 0.0F});
  }
  if (!rates.patterns.empty()) rates.owner.push_back(training);
  return rates;
}

void read_rate(WrittenLayer& written) {
  Fields& fields = written.fields;
  if (!has_weights(written.layer)) return;
  written.has_rate = fields.has("rate") || fields.has("freeze");
  if (fields.has("rate")) written.layer.rate = static_cast<float>(fields.number("rate", 0.0, kMostOfRates));
  if (fields.has("freeze") && fields.boolean("freeze")) written.layer.rate = 0.0F;
}

void apply_rates(const LayerRates& rates, std::vector<WrittenLayer>& layers) {
  std::vector<std::string> names;
  for (const WrittenLayer& each : layers) {
    if (has_weights(each.layer)) names.push_back(each.layer.name);
  }
  for (const RatePattern& rule : rates.patterns) {
    const std::string& pattern = rule.pattern;
    const auto matches = [&pattern](const std::string& name) { return matches_pattern(pattern, name); };
    if (std::ranges::none_of(names, matches)) {
      rates.owner.front().fail(rule.rate == 0.0F ? "freeze" : "rate",
                               fmt::format("names '{}', which matches no layer with weights; the net has {}", pattern,
                                           fmt::join(names, ", ")));
    }
    for (WrittenLayer& each : layers) {
      if (has_weights(each.layer) && !each.has_rate && matches(each.layer.name)) each.layer.rate = rule.rate;
    }
  }
  const auto trains = [](const WrittenLayer& each) { return has_weights(each.layer) && each.layer.rate > 0.0F; };
  if (!names.empty() && std::ranges::none_of(layers, trains)) {
    layers.back().fields.fail(
        "all layers of the net are frozen, so that nothing is left to train; leave one out of `freeze`");
  }
}

}  // namespace convoy
