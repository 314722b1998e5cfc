#include "plan/links.hpp"

#include <algorithm>
#include <limits>

namespace convoy {

Links::Links(const std::vector<NodeLink>& cards, int late)
    : nodes_(cards.size()),
      first_late_(late),
      late_(nodes_, 0),
      capacity_(2 * nodes_),
      rates_(2 * nodes_, 0.0),
      flows_(nodes_ * nodes_ * kLanes) {
  for (std::size_t n = 0; n < nodes_; ++n) {
    capacity_[n] = cards[n].out;
    capacity_[nodes_ + n] = cards[n].in;
  }
}

void Links::send(int from, int to, Lane lane, double bytes, int task) {
  const auto sender = static_cast<std::size_t>(from);
  const auto receiver = static_cast<std::size_t>(to);
  const std::size_t index = (sender * nodes_ + receiver) * kLanes + static_cast<std::size_t>(lane);
  Flow& flow = flows_[index];
  const bool idle = flow.empty();
  if (idle) {
    flow.sends.clear();
    flow.first = 0;
    flow.left = bytes;
    flow.rate = 0.0;
    open_.push_back({.flow = index, .from = sender, .to = nodes_ + receiver});
    changed_ = true;
  }
  flow.sends.push_back({task, bytes});
  if (idle) count_late(open_.back(), 1);
}

void Links::count_late(const Open& open, int change) {
  const Flow& flow = flows_[open.flow];
  if (flow.sends[flow.first].task < first_late_) return;
  late_[open.from] += change;
  late_[open.to - nodes_] += change;
}

void Links::set_rate(Open& open, double rate, double now) {
  Flow& flow = flows_[open.flow];
  if (flow.rate > 0.0) flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
  flow.since = now;
  flow.rate = rate;
  open.ends = now + flow.left / rate;
}

/// Again and again, the cards with the least capacity for each of their flows fix the rates of these.
bool Links::share(double now) {
  if (!changed_) return false;
  changed_ = false;
  std::vector<double> room = capacity_;
  std::vector<int> users(2 * nodes_, 0);
  std::vector<Open*> unsettled;
  unsettled.reserve(open_.size());
  for (Open& open : open_) {
    ++users[open.from];
    ++users[open.to];
    unsettled.push_back(&open);
  }
  constexpr double kSame = 1.0 + 1e-12;  // cards in a tie settle their flows at once
  std::vector<char> tight(room.size());
  while (!unsettled.empty()) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t card = 0; card < room.size(); ++card) {
      if (users[card] > 0) least = std::min(least, room[card] / users[card]);
    }
    for (std::size_t card = 0; card < room.size(); ++card) {
      tight[card] = users[card] > 0 && room[card] / users[card] <= kSame * least ? 1 : 0;
    }
    std::erase_if(unsettled, [&](Open* open) {
      if (tight[open->from] == 0 && tight[open->to] == 0) return false;
      set_rate(*open, least, now);
      for (const std::size_t card : {open->from, open->to}) {
        room[card] = std::max(0.0, room[card] - least);
        --users[card];
      }
      return true;
    });
  }
  for (std::size_t card = 0; card < room.size(); ++card) rates_[card] = capacity_[card] - room[card];
  return true;
}

double Links::next() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Open& open : open_) next = std::min(next, open.ends);
  return next;
}

void Links::take_ended(double now, std::vector<int>& tasks) {
  std::size_t kept = 0;
  for (Open& open : open_) {
    if (has_come(open.ends, now)) {
      Flow& flow = flows_[open.flow];
      count_late(open, -1);
      tasks.push_back(flow.sends[flow.first++].task);
      if (flow.empty()) continue;
      count_late(open, 1);
      flow.left = flow.sends[flow.first].bytes;
      flow.since = now;
      open.ends = now + flow.left / flow.rate;
    }
    open_[kept++] = open;
  }
  changed_ = changed_ || kept < open_.size();
  open_.resize(kept);
}

}  // namespace convoy
