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
  const std::size_t pair = static_cast<std::size_t>(from) * nodes_ + static_cast<std::size_t>(to);
  const std::size_t index = pair * kLanes + static_cast<std::size_t>(lane);
  Flow& flow = flows_[index];
  const bool idle = flow.empty();
  if (idle) {
    flow.sends.clear();
    flow.first = 0;
    flow.left = bytes;
    flow.rate = 0.0;
    open_.push_back(index);
    changed_ = true;
  }
  flow.sends.push_back({task, bytes});
  if (idle) count_late(index, 1);
}

void Links::count_late(std::size_t flow, int change) {
  const std::vector<Send>& sends = flows_[flow].sends;
  if (sends[flows_[flow].first].task < first_late_) return;
  late_[from(flow)] += change;
  late_[to(flow) - nodes_] += change;
}

void Links::set_rate(std::size_t index, double rate, double now) {
  Flow& flow = flows_[index];
  if (flow.rate > 0.0) flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
  flow.since = now;
  flow.rate = rate;
  flow.ends = now + flow.left / rate;
}

/// Again and again, the cards with the least capacity for each of their flows fix the rates of these.
bool Links::share(double now) {
  if (!changed_) return false;
  changed_ = false;
  std::vector<double> room = capacity_;
  std::vector<int> users(2 * nodes_, 0);
  for (const std::size_t flow : open_) {
    ++users[from(flow)];
    ++users[to(flow)];
  }
  constexpr double kSame = 1.0 + 1e-12;  // cards in a tie settle their flows at once
  std::vector<std::size_t> unsettled = open_;
  while (!unsettled.empty()) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t card = 0; card < room.size(); ++card) {
      if (users[card] > 0) least = std::min(least, room[card] / users[card]);
    }
    std::vector<bool> tight(room.size());
    for (std::size_t card = 0; card < room.size(); ++card) {
      tight[card] = users[card] > 0 && room[card] / users[card] <= kSame * least;
    }
    std::erase_if(unsettled, [&](std::size_t flow) {
      if (!tight[from(flow)] && !tight[to(flow)]) return false;
      set_rate(flow, least, now);
      for (const std::size_t card : {from(flow), to(flow)}) {
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
  for (const std::size_t flow : open_) next = std::min(next, flows_[flow].ends);
  return next;
}

void Links::take_ended(double now, std::vector<int>& tasks) {
  std::erase_if(open_, [&](std::size_t index) {
    Flow& flow = flows_[index];
    if (!has_come(flow.ends, now)) return false;
    count_late(index, -1);
    tasks.push_back(flow.sends[flow.first++].task);
    if (flow.empty()) return changed_ = true;
    count_late(index, 1);
    flow.left = flow.sends[flow.first].bytes;
    flow.since = now;
    flow.ends = now + flow.left / flow.rate;
    return false;
  });
}

}  // namespace convoy
