// Reads spaces of searches, and draws settings from them.

#include <optional>
#include <string>

#include "master/jobs/sampler.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

/// A space that was accepted gives settings within its ranges.
void draw_settings(const convoy::Space& space) {
  using namespace convoy;
  constexpr int kTrials = 12;  // more than tpe draws at random
  RungResults results;
  for (int trial = 1; trial <= kTrials; ++trial) {
    const std::optional<TrialSetting> setting = setting_of(trial, space, results);
    if (!setting) return;
    for (std::size_t i = 0; i < setting->size(); ++i) {
      const double unit = unit_of(space.parameters[i], (*setting)[i]);
      invariant(unit >= 0.0 && unit <= 1.0, "a value is within its range");
    }
    results.push_back({.trial = trial, .setting = *setting, .accuracy = 1.0 / trial, .loss = 1.0 * trial});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::optional<convoy::Space> space;
  convoy::try_to(
      [&] { space = convoy::parse_space(std::string(reinterpret_cast<const char*>(data), size), "fuzz.yaml"); });
  if (space) draw_settings(*space);
  return 0;
}
