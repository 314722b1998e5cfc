#include "master/report/energy_watch.hpp"

#include <algorithm>

#include "energy/meters.hpp"
#include "plan/plan.hpp"

namespace convoy {

EnergyWatch::EnergyWatch(const EnergyOptions& options, bool on_gpu)
    : options_(options), machine_(energy::this_machine()) {
  energy::MemberMeter meter{.row = std::nullopt, .why = "turned off with --meter none"};
  if (options.meter != "none") meter = energy::meter_for_member(*machine_, options.meter, on_gpu);
  if (meter.row) sampler_.emplace(std::move(*meter.row));
  own_.emplace(sampler_ ? &*sampler_ : nullptr, meter.why);
}

void EnergyWatch::begin() {
  begin_ = Clock::now();
  own_->begin();
}

void EnergyWatch::count(const std::vector<MemberTime>& times, double seconds) {
  const auto own = std::ranges::find(times, kMasterName, &MemberTime::member);
  if (own != times.end()) {
    own_->count(own->compute, own->transfer, own->wait);
  } else {
    own_->count(0, 0, seconds);
  }
}

EnergyReport EnergyWatch::report(std::vector<MemberEnergy> slaves) {
  EnergyReport report{.members = std::move(slaves),
                      .switch_watts = options_.terms.switch_watts,
                      .assumed_watts = options_.terms.assumed_watts,
                      .seconds = std::chrono::duration<double>(Clock::now() - begin_).count()};
  if (const auto own = own_->report()) report.members.push_back({kMasterName, *own});
  return report;
}

}  // namespace convoy
