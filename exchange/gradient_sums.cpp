#include "exchange/gradient_sums.hpp"

#include <algorithm>

namespace convoy {
namespace {

void accumulate(const float* from, std::span<float> to, bool first) {
  if (first) {
    std::copy_n(from, to.size(), to.data());
  } else {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }
}

}  // namespace

/// The number of values of a box of the maps of a sum.
std::size_t GradientSums::values_in(const Box& box, const Task& sum) const {
  return maps_shape(plan_.trunk, sum.stage, box.samples.count, box.channels.count).size();
}

/// The box of a sum to which one addend contributes.
Box GradientSums::box_of_part(const Task& sum, int part) const {
  const Task& task = schedule_.task(part);
  const bool sent = task.kind == TaskKind::send;
  const Box all = sent ? Box{task.filters, task.samples} : maps_.part(sum.stage).box;
  return common(all, {sum.filters, sum.samples});
}

std::vector<int> GradientSums::add_up(int index) {
  const Task& sum = schedule_.task(index);
  std::vector<std::size_t>& added = added_[index];
  const Box box{sum.filters, sum.samples};
  const std::size_t all = values_in(box, sum);
  const auto whole = [&](std::size_t turn) { return box_of_part(sum, sum.after[turn]) == box; };
  if (added.empty()) {
    added.resize(sum.after.size());
    if (sum.after.empty() || !whole(0)) {
      Slab& slab = maps_.gradient(sum.stage);
      slab.for_each_run(slab.place(sum.micro_batch, sum.samples), sum.filters, 0, all,
                        [](std::span<float> run) { std::ranges::fill(run, 0.0F); });
    }
  }
  std::vector<int> through;
  std::size_t limit = all;  // up to which value the current addend may be added
  for (std::size_t turn = 0; turn < sum.after.size() && limit > 0; ++turn) {
    const int part = sum.after[turn];
    const Task& task = schedule_.task(part);
    const Box of_part = box_of_part(sum, part);
    const std::size_t values = values_in(of_part, sum);
    const bool first = turn == 0 && whole(0);
    limit = std::min(limit, values);
    if (added[turn] < values && task.kind != TaskKind::send) {
      if (!schedule_.is_done(part)) break;
      add_own_part(sum, of_part, first, added[turn], limit - added[turn]);
      added[turn] = limit;
    } else if (added[turn] < values) {
      std::deque<Bytes>& held = flights_[part].held;
      while (!held.empty()) {
        const NumberType type = kept_type(task, plan_.plan);
        const std::size_t count = convoy::values_in(type, held.front().values.size());
        if (added[turn] + count > limit) break;
        add(sum, of_part, first, added[turn], type, held.front());
        added[turn] += count;
        held.pop_front();
        if (needs_credit(task, schedule_.graph(), plan_.plan)) carrier_.grant(task.node);
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

void GradientSums::add_own_part(const Task& sum, const Box& box, bool first, std::size_t begin, std::size_t count) {
  Slab& part = maps_.part(sum.stage);
  Slab& total = maps_.gradient(sum.stage);
  std::vector<std::span<const float>> own;
  part.for_each_run(part.place(sum.micro_batch, box.samples), box.channels, begin, count,
                    [&](std::span<const float> run) { own.push_back(run); });
  auto from = own.begin();
  total.for_each_run(total.place(sum.micro_batch, box.samples), box.channels, begin, count,
                     [&](std::span<float> run) { accumulate((from++)->data(), run, first); });
}

void GradientSums::add(const Task& sum, const Box& box, bool first, std::size_t begin, NumberType type,
                       const Bytes& bytes) {
  const std::byte* from = bytes.values.data();
  const std::size_t count = convoy::values_in(type, bytes.values.size());
  Slab& total = maps_.gradient(sum.stage);
  const SampleRange samples = total.place(sum.micro_batch, box.samples);
  total.for_each_run(samples, box.channels, begin, count, [&](std::span<float> run) {
    first ? decode(type, from, run) : decode_and_add(type, from, run);
    from += bytes_of(type, run.size());
  });
}

}  // namespace convoy
