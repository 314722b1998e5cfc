#include "exchange/outbox.hpp"

#include <algorithm>
#include <iterator>

namespace convoy {
namespace {

/// Returns whether a send brings one node's addend of a sum, so that no other node gets the same values.
bool is_addend(const Task& sent) { return sent.cargo == Cargo::part || sent.cargo == Cargo::filter_part; }

}  // namespace

int initial_credit(const Plan& plan) {
  constexpr int kOfAll = 64;
  return std::max(4, kOfAll / std::max(1, static_cast<int>(plan.members.size())));
}

Outbox::Outbox(const NodePlan& plan, const TaskSchedule& schedule, Carrier carrier, Encode encode,
               std::size_t most_values)
    : plan_(plan),
      schedule_(schedule),
      carrier_(std::move(carrier)),
      encode_(std::move(encode)),
      most_values_(most_values),
      credit_(initial_credit(plan.plan)) {}

void Outbox::begin_step() {
  shared_.clear();
  for (std::size_t i = 0; i < schedule_.graph().tasks.size(); ++i) {
    const int index = static_cast<int>(i);
    if (schedule_.is_done(index) || schedule_.task(index).node != plan_.index) continue;
    if (needs_credit(schedule_.task(index), schedule_.graph(), plan_.plan)) parts_.push_back(index);
  }
}

void Outbox::send(int index) {
  const std::size_t all = schedule_.values(index);
  for (std::size_t first = 0; first < all;) first += send_some(index, first);
}

void Outbox::send_ahead(const std::vector<int>& tasks) {
  shared_.clear();
  for (const int index : tasks) send(index);
  shared_.clear();
}

std::vector<int> Outbox::offer_part(int index) {
  known_.insert(index);
  return send_parts();
}

std::vector<int> Outbox::take_credit() {
  ++credit_;
  return send_parts();
}

/// In any other order than the graph's two senders could wait for each other, each with its credit used up by parts
/// whose turn has not come.
std::vector<int> Outbox::send_parts() {
  std::vector<int> sent;
  while (credit_ > 0 && !parts_.empty() && known_.contains(parts_.front())) {
    const int index = parts_.front();
    part_sent_ += send_some(index, part_sent_);
    --credit_;
    if (part_sent_ < schedule_.values(index)) continue;
    part_sent_ = 0;
    parts_.pop_front();
    known_.erase(index);
    sent.push_back(index);
  }
  return sent;
}

std::size_t Outbox::send_some(int index, std::size_t first) {
  const Task& task = schedule_.task(index);
  const std::size_t count = std::min(most_values_, schedule_.values(index) - first);
  carrier_.send({.task = index, .to = task.to, .first = first, .bytes = encoded(index, first, count)});
  return count;
}

Bytes Outbox::encoded(int index, std::size_t first, std::size_t count) {
  const Task& sent = schedule_.task(index);
  const auto same_values = [&](const Task& other) {
    return sent.cargo == other.cargo && sent.stage == other.stage && sent.micro_batch == other.micro_batch &&
           sent.filters == other.filters && sent.samples == other.samples && sent.norm == other.norm;
  };
  if (!shared_.empty() && !same_values(schedule_.task(shared_.front().task))) shared_.clear();
  for (const Parcel& parcel : shared_) {
    if (parcel.first == first) return parcel.bytes;
  }
  const std::size_t size = carries_images(sent) ? count : bytes_of(wire_type(sent, plan_.plan), count);
  const auto owner = std::make_shared<AlignedVector<std::byte>>(size);
  encode_(sent, first, count, owner->data());
  const Bytes bytes{owner, *owner};
  if (!is_addend(sent)) shared_.push_back({.task = index, .to = sent.to, .first = first, .bytes = bytes});
  return bytes;
}

void Outbox::pass_on(int index) {
  const Task& task = schedule_.task(index);
  const int from = task.after[0];
  const NumberType type = wire_type(task, plan_.plan);
  std::size_t first = 0;
  for (const Bytes& bytes : passing_.at(from)) {
    carrier_.send({.task = index, .to = task.to, .first = first, .bytes = bytes});
    first += values_in(type, bytes.values.size());
  }
  if (passed_on_by(from).back() == index) passing_.erase(from);
}

/// The sends of this node that pass on the values of a send to it.
std::vector<int> Outbox::passed_on_by(int received) const {
  std::vector<int> sends;
  std::ranges::copy_if(schedule_.followers(received), std::back_inserter(sends), [this](int follower) {
    const Task& task = schedule_.task(follower);
    return task.node == plan_.index && passes_on(task, schedule_.graph());
  });
  return sends;
}

}  // namespace convoy
