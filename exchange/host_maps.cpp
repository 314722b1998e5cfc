#include "exchange/host_maps.hpp"

#include <algorithm>

namespace convoy {

HostMaps::HostMaps(const NodePlan& plan, ThesisNode* thesis) : plan_(plan), thesis_(thesis) {
  std::map<int, Box> maps;
  std::map<int, Box> gradients;
  std::map<int, Box> parts;
  const auto extend = [](Box& box, const Box& more) { box = hull(box, more); };
  const TaskKind makes_maps = thesis != nullptr ? TaskKind::layers : TaskKind::forward;
  for (const Task& each : plan.training.tasks) {
    const Box box{each.filters, each.samples};
    if (each.to == plan.index && each.cargo == Cargo::maps) extend(maps[each.stage], box);
    if (each.to == plan.index && each.cargo == Cargo::gradient) extend(gradients[each.stage], box);
    if (each.node != plan.index) continue;
    if (each.kind == makes_maps && plan.leaves(each.stage)) extend(maps[each.stage], box);
    if (each.kind == TaskKind::sum && !plan.adds_here(each.stage)) extend(gradients[each.stage], box);
    if (each.kind != TaskKind::backward_input) continue;
    if (plan.everywhere(each.stage) && !plan.adds_here(each.stage)) extend(parts[each.stage], box);
    for (const Read& read : reads_for(plan.trunk, static_cast<std::size_t>(each.stage), each.filters)) {
      if (!plan.needs_gradient(read)) continue;
      if (!plan.adds_here(read.stage)) extend(parts[read.stage], {read.channels, each.samples});
      first_part_[read.stage] = std::max(first_part_[read.stage], each.stage);
    }
  }
  if (plan.is_master()) {
    const SampleRange all{0, micro_batch_size(plan.plan)};
    extend(maps[Source::kImages], {{0, plan.trunk[0].channels}, all});
    for (const int output : outputs_of(plan.trunk)) {
      extend(maps[output], {{0, plan.trunk[output].conv.filters}, all});
      if (plan.from_heads(output)) continue;
      extend(gradients[output], {{0, plan.trunk[output].conv.filters}, all});
    }
  }
  if (const auto images = maps.extract(Source::kImages)) {
    const Box& box = images.mapped();
    const int samples = box.samples.count * plan.plan.micro_batches;
    pixels_ = {Pixels(maps_shape(plan.trunk, Source::kImages, samples, box.channels.count)), box};
  }
  const auto make = [&plan](const std::map<int, Box>& boxes, std::map<int, Slab>& slabs) {
    for (const auto& [stage, box] : boxes) {
      const int samples = box.samples.count * plan.plan.micro_batches;
      slabs[stage] = {Tensor(maps_shape(plan.trunk, stage, samples, box.channels.count)), box};
    }
  };
  make(maps, maps_);
  make(gradients, gradients_);
  make(parts, parts_);
}

Slab& HostMaps::gradient_by_made(int stage) {
  if (thesis_ != nullptr) return thesis_->convolved_gradient(stage);
  return plan_.everywhere(stage) ? parts_.at(stage) : gradients_.at(stage);
}

Slab& HostMaps::of(const Task& sent) {
  switch (sent.cargo) {
    case Cargo::gradient: return gradients_.at(sent.stage);
    case Cargo::part: return parts_.at(sent.stage);
    case Cargo::raw_maps: return thesis_->convolved(sent.stage);
    case Cargo::raw_gradient: return thesis_->convolved_gradient(sent.stage);
    default: return maps_.at(sent.stage);
  }
}

void HostMaps::take_images(const Pixels& images) {
  std::ranges::copy(images.span(), pixels_.values.data());
  sends_next_ = false;
}

void HostMaps::take_next_images(const Pixels& images) {
  if (next_pixels_.values.size() == 0) next_pixels_ = pixels_;
  std::ranges::copy(images.span(), next_pixels_.values.data());
  sends_next_ = true;
}

void HostMaps::use_next_images() {
  std::swap(pixels_, next_pixels_);
  sends_next_ = false;
}

const Box* HostMaps::box(int stage) const {
  if (stage == Source::kImages) return pixels() != nullptr ? &pixels_.box : nullptr;
  const Slab* slab = maps(stage);
  return slab != nullptr ? &slab->box : nullptr;
}

void HostMaps::copy(int stage, int sample, FilterRange channels, float* to) const {
  if (stage == Source::kImages) {
    normaliser_.normalise(pixels_.run(sample, channels), channels, pixels_.map(), to);
  } else {
    std::ranges::copy(maps_.at(stage).run(sample, channels), to);
  }
}

void HostMaps::encode_values(const Task& sent, std::size_t first, std::size_t count, std::uint64_t seed,
                             std::byte* to) {
  const NumberType type = wire_type(sent, plan_.plan);
  Slab& slab = of(sent);
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

void HostMaps::encode_pixels(const Task& sent, std::size_t first, std::size_t count, std::byte* to) {
  PixelSlab& pixels = sends_next_ ? next_pixels_ : pixels_;
  pixels.for_each_run(pixels.place(sent.micro_batch, sent.samples), sent.filters, first, count,
                      [&](std::span<const std::uint8_t> run) { to = std::ranges::copy(std::as_bytes(run), to).out; });
}

void HostMaps::place(const Task& sent, std::size_t first, const Bytes& bytes) {
  const NumberType type = kept_type(sent, plan_.plan);
  const std::byte* from = bytes.values.data();
  Slab& slab = of(sent);
  slab.for_each_run(slab.place(sent.micro_batch, sent.samples), sent.filters, first,
                    values_in(type, bytes.values.size()), [&](std::span<float> run) {
                      decode(type, from, run);
                      from += bytes_of(type, run.size());
                    });
}

void HostMaps::place_pixels(const Task& sent, std::size_t first, const Bytes& bytes) {
  std::span<const std::byte> left = bytes.values;
  pixels_.for_each_run(pixels_.place(sent.micro_batch, sent.samples), sent.filters, first, left.size(),
                       [&](std::span<std::uint8_t> run) {
                         std::ranges::copy(left.first(run.size()), std::as_writable_bytes(run).begin());
                         left = left.subspan(run.size());
                       });
}

}  // namespace convoy
