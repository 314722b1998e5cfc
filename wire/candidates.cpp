#include "wire/candidates.hpp"

#include <algorithm>
#include <tuple>

namespace convoy::wire {
namespace {

using namespace std::chrono_literals;

/// A master calls once a second, so one that has been silent for as long calls no more.
constexpr auto kSilent = 3s;
/// Calls in quicker succession count as one.
constexpr auto kRound = 500ms;
constexpr auto kFirstDelay = 2s;
constexpr auto kLongestDelay = 60s;

}  // namespace

void Candidates::hear(const std::string& address, Time now) {
  const auto [each, fresh] = known_.try_emplace(address);
  Candidate& candidate = each->second;
  if (fresh || now - candidate.heard > kSilent) {
    candidate.first = now;
    candidate.counted = now;
    candidate.rounds = 1;
  } else if (now - candidate.counted >= kRound) {
    candidate.counted = now;
    ++candidate.rounds;
  }
  candidate.heard = now;
  if (known_.size() > kMostKnown) forget_one();
}

void Candidates::forget_one() {
  const auto rank = [](const auto& each) { return std::tuple(each.second.trying, each.second.heard); };
  known_.erase(std::ranges::min_element(known_, {}, rank));
}

bool Candidates::comes_before(const Candidate& a, const Candidate& b) {
  const auto rank = [](const Candidate& each) {
    return std::tuple(!each.found, each.rounds < 2, each.tried, each.first);
  };
  return rank(a) < rank(b);
}

std::optional<std::string> Candidates::next(Time now) {
  auto best = known_.end();
  for (auto each = known_.begin(); each != known_.end(); ++each) {
    const Candidate& candidate = each->second;
    if (candidate.trying || now < candidate.due || now - candidate.heard > kSilent) continue;
    if (best == known_.end() || comes_before(candidate, best->second)) best = each;
  }
  if (best == known_.end()) return std::nullopt;
  best->second.trying = true;
  best->second.tried = now;
  return best->first;
}

void Candidates::failed(const std::string& address, Time now) {
  const auto each = known_.find(address);
  if (each == known_.end()) return;
  Candidate& candidate = each->second;
  candidate.trying = false;
  candidate.found = false;
  constexpr int kDoublings = 5;  // past the longest delay
  const auto delay = kFirstDelay * (1 << std::min(candidate.failures, kDoublings));
  candidate.due = now + std::min<std::chrono::seconds>(delay, kLongestDelay);
  ++candidate.failures;
}

void Candidates::found(const std::string& address) {
  const auto each = known_.find(address);
  if (each == known_.end()) return;
  each->second.trying = false;
  each->second.failures = 0;
  each->second.found = true;
}

void Candidates::give_up() {
  for (auto& [address, candidate] : known_) candidate.trying = false;
}

}  // namespace convoy::wire
