#include "master/report/energy_watch.hpp"

#include <algorithm>
#include <utility>

#include "energy/meters.hpp"
#include "plan/plan.hpp"

namespace convoy {

EnergyWatch::EnergyWatch(EnergyOptions options) : options_(std::move(options)), machine_(energy::this_machine()) {
  if (!options_.meter.empty()) open(false);
}

void EnergyWatch::open(bool on_gpu) {
  energy::MemberMeter meter{.row = std::nullopt, .why = "turned off with --meter none"};
  if (options_.meter != "none") meter = energy::meter_for_member(*machine_, options_.meter, on_gpu);
  if (meter.row) sampler_.emplace(std::move(*meter.row));
  own_.emplace(sampler_ ? &*sampler_ : nullptr, meter.why);
}

void EnergyWatch::begin(bool on_gpu) {
  if (!own_) open(on_gpu);
  begin_ = Clock::now();
  own_->begin();
}

void EnergyWatch::count(const std::vector<MemberTime>& times, double seconds, bool alone) {
  if (alone) return own_->count(seconds, 0, 0);
  const auto own = std::ranges::find_if(times, is_master, &MemberTime::member);
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
