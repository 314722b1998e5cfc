// The values that a node sends, receives and adds up.

#include "exchange/node_parts.hpp"

namespace convoy {

// ---- sums ----------------------------------------------------------------------------------------------------------

namespace {

void accumulate(const float* from, std::span<float> to, bool first) {
  if (first) {
    std::copy_n(from, to.size(), to.data());
  } else {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
}

/// Returns whether a send brings one node's addend of a sum.
bool is_part(const Task& sent) { return sent.cargo == Cargo::part || sent.cargo == Cargo::filter_part; }

/// Returns whether a send brings the statistics of all rows.
bool is_joint(const Task& sent) { return sent.cargo == Cargo::joint_moments || sent.cargo == Cargo::joint_slopes; }

/// A number that identifies the values of a send, whichever node receives them. It seeds the random rounding, so all
/// receivers of the same values get the same roundings, in any order of sending.
std::uint64_t name_of_values(const Task& sent) {
  std::uint64_t name = static_cast<std::uint64_t>(sent.cargo);
  for (const int part :
       {sent.stage, sent.micro_batch, sent.filters.first, sent.samples.first, is_part(sent) ? sent.node : 0}) {
    name = name * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(part) + 1;
  }
  return name << 20U;
}

/// The number type in which received values wait for their turn.
NumberType kept_type(const Task& sent, const Plan& plan) {
  const NumberType type = wire_type(sent, plan);
  return type == NumberType::int8 ? NumberType::fp32 : type;
}

/// Encodes values that need no slab. `seed` is that of the random rounding.
void encode_some(std::span<const float> values, NumberType type, std::byte* to, std::uint64_t seed) {
  if (type == NumberType::int8) {
    encode_by_chance(values, to, seed);
  } else {
    encode(type, values, to);
  }
}

}  // namespace

/// The box of a sum to which one addend contributes.
Box Node::box_of_part(const Task& sum, int part) const {
  const bool sent = task(part).kind == TaskKind::send;
  const Box all = sent ? Box{task(part).filters, task(part).samples} : parts_.at(sum.stage).box;
  return common(all, {sum.filters, sum.samples});
}

/// Adds the addends that have arrived. Each value is summed in the order of the nodes, never in the order of arrival,
/// so an addend waits for the one before it. If both have the whole box, it follows value by value; otherwise it waits
/// until the one before is added completely. Returns the send tasks whose values are now all added.
std::vector<int> Node::add_up(int index) {
  const Task& sum = task(index);
  std::vector<std::size_t>& added = added_[index];
  const Box box{sum.filters, sum.samples};
  const std::size_t all = values_in(box, sum);
  const auto whole = [&](std::size_t turn) { return box_of_part(sum, sum.after[turn]) == box; };
  if (added.empty()) {
    added.resize(sum.after.size());
    if (sum.after.empty() || !whole(0)) {
      Slab& slab = gradients_.at(sum.stage);
      slab.for_each_run(slab.place(sum.micro_batch, sum.samples), sum.filters, 0, all,
                        [](std::span<float> run) { std::ranges::fill(run, 0.0F); });
    }
  }
  std::vector<int> through;
  std::size_t limit = all;  // up to which value the current addend may be added
  for (std::size_t turn = 0; turn < sum.after.size() && limit > 0; ++turn) {
    const int part = sum.after[turn];
    const Box of_part = box_of_part(sum, part);
    const std::size_t values = values_in(of_part, sum);
    const bool first = turn == 0 && whole(0);
    limit = std::min(limit, values);
    if (added[turn] < values && task(part).kind != TaskKind::send) {
      if (!done_[static_cast<std::size_t>(part)]) break;
      add_own_part(sum, of_part, first, added[turn], limit - added[turn]);
      added[turn] = limit;
    } else if (added[turn] < values) {
      std::deque<Bytes>& held = flights_[part].held;
      while (!held.empty()) {
        const NumberType type = kept_type(task(part), plan_);
        const std::size_t count = convoy::values_in(type, held.front().values.size());
        if (added[turn] + count > limit) break;
        add(sum, of_part, first, added[turn], type, held.front());
        added[turn] += count;
        held.pop_front();
        if (needs_credit(task(part), *graph_, plan_)) carrier_.grant(task(part).node);
      }
      if (added[turn] == values) {
        flights_.erase(part);
        through.push_back(part);
      }
    }
    const bool in_step = turn + 1 < sum.after.size() && whole(turn) && whole(turn + 1);
    limit = added[turn] == values ? all : (in_step ? added[turn] : 0);
  }
  return through;
}

void Node::add_own_part(const Task& sum, const Box& box, bool first, std::size_t begin, std::size_t count) {
  Slab& part = parts_.at(sum.stage);
  Slab& total = gradients_.at(sum.stage);
  std::vector<std::span<const float>> own;
  part.for_each_run(part.place(sum.micro_batch, box.samples), box.channels, begin, count,
                    [&](std::span<const float> run) { own.push_back(run); });
  auto from = own.begin();
  total.for_each_run(total.place(sum.micro_batch, box.samples), box.channels, begin, count,
                     [&](std::span<float> run) { accumulate((from++)->data(), run, first); });
}

void Node::add(const Task& sum, const Box& box, bool first, std::size_t begin, NumberType type, const Bytes& bytes) {
  const std::byte* from = bytes.values.data();
  const std::size_t count = convoy::values_in(type, bytes.values.size());
  Slab& total = gradients_.at(sum.stage);
  const SampleRange samples = total.place(sum.micro_batch, box.samples);
  total.for_each_run(samples, box.channels, begin, count, [&](std::span<float> run) {
    if (first) {
      decode(type, from, run);
    } else {
      scratch_.resize(run.size());
      decode(type, from, scratch_);
      accumulate(scratch_.data(), run, false);
    }
    from += bytes_of(type, run.size());
  });
}

// ---- sending and receiving -----------------------------------------------------------------------------------------

Slab& Node::slab_of(const Task& sent) {
  switch (sent.cargo) {
    case Cargo::gradient: return gradients_.at(sent.stage);
    case Cargo::part: return parts_.at(sent.stage);
    case Cargo::raw_maps: return thesis_->convolved(sent.stage);
    case Cargo::raw_gradient: return thesis_->convolved_gradient(sent.stage);
    default: return maps_.at(sent.stage);
  }
}

/// Whether the node passes on the values of a send that it receives.
bool Node::is_passed_on(int index) const { return !passed_on_by(index).empty(); }

/// The sends of this node that pass on the values of a send to it.
std::vector<int> Node::passed_on_by(int index) const {
  std::vector<int> sends;
  std::ranges::copy_if((*followers_)[static_cast<std::size_t>(index)], std::back_inserter(sends), [this](int follower) {
    return task(follower).node == index_ && passes_on(task(follower), *graph_);
  });
  return sends;
}

/// Passes on values in the bytes and parcels in which they arrived, so that they are not rounded again.
void Node::pass_on(int index) {
  const int from = task(index).after[0];
  const NumberType type = wire_type(task(index), plan_);
  std::size_t first = 0;
  for (const Bytes& bytes : passing_.at(from)) {
    carrier_.send({.task = index, .to = task(index).to, .first = first, .bytes = bytes});
    first += convoy::values_in(type, bytes.values.size());
  }
  if (passed_on_by(from).back() == index) passing_.erase(from);
}

void Node::send(int index) {
  if (passes_on(task(index), *graph_)) {
    pass_on(index);
    return finish(index);
  }
  send_values(index);
  finish(index);
}

void Node::send_values(int index) {
  const std::size_t all = values_of(task(index));
  for (std::size_t first = 0; first < all;) first += send_some(index, first, most_values_);
}

/// Sends parts of gradients in the graph's order until the credit is used up. In any other order two senders could wait
/// for each other, each with its credit used up by parts whose turn has not come.
void Node::send_parts() {
  while (credit_ > 0 && !parts_to_send_.empty() && done_[static_cast<std::size_t>(parts_to_send_.front())]) {
    const int index = parts_to_send_.front();
    part_sent_ += send_some(index, part_sent_, most_values_);
    --credit_;
    if (part_sent_ < values_of(task(index))) continue;
    part_sent_ = 0;
    parts_to_send_.pop_front();
    finish(index);
  }
}

void Node::grant() {
  ++credit_;
  send_parts();
}

std::size_t Node::send_some(int index, std::size_t first, std::size_t most) {
  const std::size_t count = std::min(most, values_of(task(index)) - first);
  carrier_.send({.task = index, .to = task(index).to, .first = first, .bytes = encoded(index, first, count)});
  return count;
}

Bytes Node::encoded(int index, std::size_t first, std::size_t count) {
  const Task& sent = task(index);
  const auto same_values = [&](const Task& other) {
    return sent.cargo == other.cargo && sent.stage == other.stage && sent.micro_batch == other.micro_batch &&
           sent.filters == other.filters && sent.samples == other.samples && sent.norm == other.norm;
  };
  if (!shared_.empty() && !same_values(task(shared_.front().task))) shared_.clear();
  for (const Parcel& parcel : shared_) {
    if (parcel.first == first) return parcel.bytes;
  }
  const std::size_t size = carries_images(sent) ? count : bytes_of(wire_type(sent, plan_), count);
  const auto owner = std::make_shared<AlignedVector<std::byte>>(size);
  encode_values(sent, first, count, owner->data());
  const Bytes bytes{owner, *owner};
  if (!is_part(sent)) shared_.push_back({.task = index, .to = sent.to, .first = first, .bytes = bytes});
  return bytes;
}

/// Encodes values of a send to `to`.
void Node::encode_values(const Task& sent, std::size_t first, std::size_t count, std::byte* to) {
  if (carries_images(sent)) {
    const SampleRange samples = pixels_.place(sent.micro_batch, sent.samples);
    return pixels_.for_each_run(samples, sent.filters, first, count, [&](std::span<const std::uint8_t> run) {
      to = std::ranges::copy(std::as_bytes(run), to).out;
    });
  }
  const NumberType type = wire_type(sent, plan_);
  const std::uint64_t seed = pass_.seed + name_of_values(sent) + first;
  const bool of_weights = concerns_weights(sent);
  if (of_weights || carries_statistics(sent)) {
    if (first == 0) of_weights ? take_weights_to_send(sent) : take_statistics_to_send(sent);
    return encode_some(std::span<const float>(weights_to_send_).subspan(first, count), type, to, seed);
  }
  Slab& slab = slab_of(sent);
  const SampleRange samples = slab.place(sent.micro_batch, sent.samples);
  if (type == NumberType::int8) {
    scratch_.clear();
    slab.for_each_run(samples, sent.filters, first, count,
                      [&](std::span<float> run) { scratch_.insert(scratch_.end(), run.begin(), run.end()); });
    return encode_by_chance(scratch_, to, seed);
  }
  slab.for_each_run(samples, sent.filters, first, count, [&](std::span<float> run) {
    encode(type, run, to);
    to += bytes_of(type, run.size());
  });
}

/// The number of values in so many bytes of a send; 0 where they hold no whole number of values.
std::size_t Node::values_in_parcel(const Task& sent, std::size_t bytes) const {
  return carries_images(sent) ? bytes : convoy::values_in(wire_type(sent, plan_), bytes);
}

void Node::receive(int from, int index, std::size_t first, const Bytes& bytes) {
  if (graph_ == nullptr || index < 0 || static_cast<std::size_t>(index) >= graph_->tasks.size() ||
      task(index).kind != TaskKind::send || task(index).to != index_ || task(index).node != from ||
      done_[static_cast<std::size_t>(index)]) {
    fail("values of task {} came from node {}, which has no such task to send here in this step", index, from);
  }
  const Task& sent = task(index);
  const std::size_t all = values_of(sent);
  Flight& flight = flights_[index];
  const std::size_t count = values_in_parcel(sent, bytes.values.size());
  if (first != flight.received || count == 0 || count > all - first) {
    fail("{} bytes from value {} on of task {} came where values {} to {} are due, in {}", bytes.values.size(), first,
         index, flight.received, all, carries_images(sent) ? "pixels" : to_string(wire_type(sent, plan_)));
  }
  flight.received += count;
  if (sent.cargo == Cargo::part) {
    if (needs_credit(sent, *graph_, plan_) && flight.held.size() >= static_cast<std::size_t>(initial_credit(plan_))) {
      fail("more parts of a gradient came than the credit allows");
    }
    flight.held.push_back(as_kept(sent, bytes));
    for (const int follower : (*followers_)[static_cast<std::size_t>(index)]) {
      for (const int added : add_up(follower)) finish(added);
    }
    return;
  }
  const bool passed_on = is_passed_on(index);
  if (passed_on) passing_[index].push_back(bytes);
  if (sent.cargo == Cargo::weights || sent.cargo == Cargo::filter_sum || is_joint(sent)) {
    flight.held.push_back(bytes);
  } else if ((sent.cargo == Cargo::filter_part || carries_statistics(sent)) && !passed_on) {
    flight.held.push_back(as_kept(sent, bytes));
    if (flight.received == all) finish(index);
    return;  // filter_sum or join_statistics takes the values
  } else if (carries_images(sent)) {
    place_pixels(sent, first, bytes);
  } else if (!passed_on) {
    place(sent, first, as_kept(sent, bytes));
  }
  if (flight.received < all) return;
  if (sent.cargo == Cargo::weights) {
    take_floats(flight.held, all);
    take_weights(sent, scratch_);
  } else if (sent.cargo == Cargo::filter_sum) {
    take_filter_sum(index);
  } else if (carries_images(sent)) {
    normalise(sent.micro_batch, sent.samples);
  } else if (is_joint(sent)) {
    take_floats(flight.held, all);
    joint_statistics_[sent.stage] = {sent.filters, {scratch_.begin(), scratch_.end()}};
  }
  flights_.erase(index);
  finish(index);
}

/// Puts values that arrived in fp32 one after another into scratch_.
void Node::take_floats(const std::deque<Bytes>& parts, std::size_t count) {
  scratch_.resize(count);
  std::byte* to = std::as_writable_bytes(std::span(scratch_)).data();
  for (const Bytes& part : parts) to = std::ranges::copy(part.values, to).out;
}

/// Decodes int8 values to floats when they arrive. Their blocks follow the order of sending, so they cannot be split
/// into contiguous runs of the slab.
Bytes Node::as_kept(const Task& sent, const Bytes& bytes) const {
  const NumberType type = wire_type(sent, plan_);
  if (type == kept_type(sent, plan_)) return bytes;
  const auto floats = std::make_shared<std::vector<float>>(convoy::values_in(type, bytes.values.size()));
  decode(type, bytes.values.data(), *floats);
  return {floats, std::as_bytes(std::span<const float>(*floats))};
}

void Node::place(const Task& sent, std::size_t first, const Bytes& bytes) {
  const NumberType type = kept_type(sent, plan_);
  const std::byte* from = bytes.values.data();
  const std::size_t count = convoy::values_in(type, bytes.values.size());
  Slab& slab = slab_of(sent);
  slab.for_each_run(slab.place(sent.micro_batch, sent.samples), sent.filters, first, count, [&](std::span<float> run) {
    decode(type, from, run);
    from += bytes_of(type, run.size());
  });
}

void Node::place_pixels(const Task& sent, std::size_t first, const Bytes& bytes) {
  std::span<const std::byte> left = bytes.values;
  pixels_.for_each_run(pixels_.place(sent.micro_batch, sent.samples), sent.filters, first, left.size(),
                       [&](std::span<std::uint8_t> run) {
                         std::ranges::copy(left.first(run.size()), std::as_writable_bytes(run).begin());
                         left = left.subspan(run.size());
                       });
}

}  // namespace convoy
