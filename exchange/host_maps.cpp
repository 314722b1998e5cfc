#include "exchange/host_maps.hpp"

#include <algorithm>
#include <utility>

#include "plan/node_memory.hpp"

namespace convoy {

HostMaps::HostMaps(const NodePlan& plan, ThesisNode* thesis) : plan_(plan), thesis_(thesis) {
  HostBoxes boxes = host_boxes(plan.plan, plan.trunk, plan.training, plan.residence, plan.index);
  if (const auto images = boxes.maps.extract(Source::kImages)) {
    const Box& box = images.mapped();
    const int samples = box.samples.count * plan.plan.micro_batches;
    pixels_ = {Pixels(maps_shape(plan.trunk, Source::kImages, samples, box.channels.count)), box};
  }
  const auto make = [&plan](const std::map<int, Box>& of, std::map<int, Slab>& slabs) {
    for (const auto& [stage, box] : of) {
      const int samples = box.samples.count * plan.plan.micro_batches;
      slabs[stage] = {Tensor(maps_shape(plan.trunk, stage, samples, box.channels.count)), box};
    }
  };
  make(boxes.maps, maps_);
  make(boxes.gradients, gradients_);
  make(boxes.parts, parts_);
  first_reader_ = std::move(boxes.first_reader);
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
  Slab& slab = of(sent);
  std::vector<std::span<const float>> runs;
  slab.for_each_run(slab.place(sent.micro_batch, sent.samples), sent.filters, first, count,
                    [&](std::span<float> run) { runs.push_back(run); });
  encode_places(wire_type(sent, plan_.plan), runs, to, seed);
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
