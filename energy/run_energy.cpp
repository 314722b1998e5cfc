#include "energy/run_energy.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace convoy::energy {
namespace {

using namespace std::chrono_literals;

/// Meters are read at most this often; what happens within it has the same power.
constexpr auto kSlot = 5ms;
/// A meter that tells nothing for long would let the slots grow without an end, so neighbours are joined.
constexpr std::size_t kMostSlots = 4096;
/// How often the interval is computed anew, which looks at all readings of the run.
constexpr auto kBetweenJudgements = 500ms;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

RunEnergy::RunEnergy(Sampler* sampler, std::string why) : sampler_(sampler), idle_since_(Clock::now()) {
  energy_.refusal = std::move(why);
  if (sampler_ == nullptr) return;
  energy_.meter = sampler_->info().name;
  energy_.scope = name_of(sampler_->info().scope);
  energy_.origin = name_of(sampler_->info().origin);
}

void RunEnergy::end_idle() {
  if (sampler_ == nullptr) return;
  sampler_->look([&](const Record& record) {
    const Measurement idle = record.between(idle_since_, Clock::now());
    if (!idle.energy) return;
    energy_.idle_watts = idle.watts();
    energy_.idle_error = idle.energy->error / idle.seconds;
  });
}

void RunEnergy::begin() {
  if (begin_) return;
  begin_ = Clock::now();
  if (sampler_ != nullptr) sampler_->look([&](Record& record) { record.keep(*begin_); });
}

void RunEnergy::count(double compute, double transfer, double wait) {
  if (!begin_ || sampler_ == nullptr) return;
  const Clock::time_point now = Clock::now();
  if (slots_.empty() || slots_.back().to - slots_.back().from >= kSlot) {
    const Clock::time_point from = slots_.empty() ? *begin_ + Clock::seconds(energy_.seconds) : slots_.back().to;
    if (slots_.size() >= kMostSlots) join_slots();
    slots_.push_back({.from = from, .to = now});
  }
  Slot& slot = slots_.back();
  slot.to = now;
  slot.compute += compute;
  slot.transfer += transfer;
  slot.wait += wait;
}

/// Joins each two neighbours, which then have one power.
void RunEnergy::join_slots() {
  std::deque<Slot> joined;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (i % 2 == 0) {
      joined.push_back(slots_[i]);
      continue;
    }
    Slot& slot = joined.back();
    slot.to = slots_[i].to;
    slot.compute += slots_[i].compute;
    slot.transfer += slots_[i].transfer;
    slot.wait += slots_[i].wait;
  }
  slots_ = std::move(joined);
}

void RunEnergy::add(const Slot& slot, double joules) {
  const double all = slot.compute + slot.transfer + slot.wait;
  const double seconds = seconds_between(slot.from, slot.to);
  energy_.seconds += seconds;
  if (all <= 0) {
    energy_.wait += joules;
    energy_.wait_seconds += seconds;
    return;
  }
  energy_.compute_seconds += seconds * slot.compute / all;
  energy_.transfer_seconds += seconds * slot.transfer / all;
  energy_.wait_seconds += seconds * slot.wait / all;
  energy_.compute += joules * slot.compute / all;
  energy_.transfer += joules * slot.transfer / all;
  energy_.wait += joules * slot.wait / all;
}

/// Finds the interval and the refusal of everything up to the last reading.
void RunEnergy::judge(Record& record) {
  judged_ = Clock::now();
  const Measurement all = record.between(*begin_, record.covered().value_or(judged_));
  energy_.refusal = all.refusal;
  energy_.error = all.energy ? all.energy->error : 0;
  energy_.refresh = all.refresh;
  energy_.wraps = static_cast<std::uint64_t>(all.wraps);
  energy_.gaps = static_cast<std::uint64_t>(all.gaps);
  energy_.gap_seconds = all.gap_seconds;
}

std::optional<MachineEnergy> RunEnergy::report() {
  if (!begin_ || (sampler_ == nullptr && energy_.refusal.empty())) return std::nullopt;
  if (sampler_ == nullptr) return energy_;
  sampler_->look([&](Record& record) {
    const auto covered = record.covered();
    while (covered && !slots_.empty() && slots_.front().to <= *covered) {
      // A power below 0 is a fault of the sensor, which the next judgement refuses.
      add(slots_.front(), std::max(0.0, record.joules(slots_.front().from, slots_.front().to)));
      slots_.pop_front();
    }
    energy_.watts = record.watts_now().value_or(0);
    if (Clock::now() - judged_ >= kBetweenJudgements) judge(record);
  });
  if (energy_.refusal.empty()) return energy_;
  // What cannot be measured has no numbers.
  return MachineEnergy{
      .meter = energy_.meter, .scope = energy_.scope, .origin = energy_.origin, .refusal = energy_.refusal};
}

}  // namespace convoy::energy
