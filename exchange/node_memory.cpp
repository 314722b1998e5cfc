// What a node allocates: its shards with their tensors on the device, and slabs on the host.

#include <algorithm>
#include <utility>

#include "exchange/node_parts.hpp"

namespace convoy {

/// Compiles the node's tiles, and the other filters of stages that the node computes although other members hold
/// them.
void Node::compile(Device* device) {
  for (std::size_t s = 0; s < trunk_.size(); ++s) {
    const FilterRange own = tile_of(plan_.stages[s], index_).filters;
    const FilterRange held = held_[s].channels;
    std::vector<FilterRange> ranges;
    if (own.count > 0) ranges.push_back(own);
    if (held.count > own.count && !sends_weights()) {
      const int begin = own.count > 0 ? own.first : held.first;
      const int behind = begin + own.count;
      if (begin > held.first) ranges.push_back({held.first, begin - held.first});
      if (behind < held.first + held.count) ranges.push_back({behind, held.first + held.count - behind});
    }
    for (const FilterRange& range : ranges) {
      invariant(device != nullptr, "a node with shards has a device");
      compile(*device, s, range);
    }
  }
}

void Node::compile(Device& device, std::size_t s, FilterRange filters) {
  const Stage stage = thesis_ != nullptr ? ThesisNode::compiled(trunk_[s]) : trunk_[s];
  const std::vector<Sources> reads = reads_of(trunk_, s);
  const Sources& from = reads[0];
  const bool backward = everywhere(static_cast<int>(s)) || filters == tile_of(plan_.stages[s], index_).filters;
  const SampleRange samples = held_[s].samples;
  const int batch = samples.count * plan_.micro_batches;
  const bool slopes = std::ranges::any_of(from, [](const Source& source) { return source.stage >= 0; });
  Piece piece{.stage = static_cast<int>(s),
              .filters = filters,
              .reads = reads_for(trunk_, s, filters),
              .shard = device.compile({.stage = stage,
                                       .filters = filters,
                                       .batch = batch,
                                       .input_gradient = backward && slopes,
                                       .keep_input_gradient = residence_.keeps_input_gradient(static_cast<int>(s)),
                                       .micro_batches = plan_.micro_batches,
                                       .first_sample = samples.first,
                                       .whole_micro_batch = micro_batch_size(plan_)}),
              .backward = backward,
              .added = {},
              .gradient = nullptr,
              .fresh = {}};
  const std::size_t adds = added_shapes(stage, batch, filters.count).size();
  // The input of a shard that is the maps of another one, as they stand, has no tensor of its own.
  const auto joined = [&](std::size_t number, auto make) -> std::unique_ptr<DeviceTensor> {
    const Sources& sources = reads[number];
    if (!residence_.inputs[s][number]) return make();
    const Source& first = sources.front();
    if (sources.size() == 1 && first.channels == held_[static_cast<std::size_t>(first.stage)].channels) return nullptr;
    std::unique_ptr<DeviceTensor> maps = make();
    maps->write(Tensor(maps->shape(), 0.0F).span());  // channels that have no source stay zero
    return maps;
  };
  for (std::size_t i = 0; i < adds; ++i) {
    piece.added.push_back(joined(i + 1, [&] { return piece.shard->make_added(i); }));
    if (piece.added.back() != nullptr) piece.shard->connect(i, *piece.added.back());
  }
  if (backward && residence_.sole_reader[s] < 0) piece.gradient = piece.shard->make_output_gradient();
  auto input =
      std::ranges::find_if(inputs_, [&](const Input& other) { return other.from == from && other.samples == samples; });
  if (input == inputs_.end()) {
    inputs_.push_back({.from = from,
                       .samples = samples,
                       .maps = joined(0, [&] { return piece.shard->make_input(); }),
                       .written = {}});
    input = inputs_.end() - 1;
  }
  input_of_[s] = static_cast<std::size_t>(input - inputs_.begin());
  pieces_[s].push_back(std::move(piece));
}

/// Allocates the parts of maps and gradients that the node receives, computes or adds up.
void Node::make_slabs() {
  std::map<int, Box> maps;
  std::map<int, Box> gradients;
  std::map<int, Box> parts;
  const auto extend = [](Box& box, const Box& more) { box = hull(box, more); };
  const TaskKind makes_maps = thesis_ != nullptr ? TaskKind::layers : TaskKind::forward;
  for (const Task& each : training_.tasks) {
    const Box box{each.filters, each.samples};
    if (each.to == index_ && each.cargo == Cargo::maps) extend(maps[each.stage], box);
    if (each.to == index_ && each.cargo == Cargo::gradient) extend(gradients[each.stage], box);
    if (each.node != index_) continue;
    if (each.kind == makes_maps && leaves(each.stage)) extend(maps[each.stage], box);
    if (each.kind == TaskKind::sum && !adds_here(each.stage)) extend(gradients[each.stage], box);
    if (each.kind != TaskKind::backward_input) continue;
    if (everywhere(each.stage) && !adds_here(each.stage)) extend(parts[each.stage], box);
    for (const Read& read : reads_for(trunk_, static_cast<std::size_t>(each.stage), each.filters)) {
      if (read.stage < 0) continue;
      if (!adds_here(read.stage)) extend(parts[read.stage], {read.channels, each.samples});
      first_part_[read.stage] = std::max(first_part_[read.stage], each.stage);
    }
  }
  if (index_ == training_.master) {
    const SampleRange all{0, micro_batch_size(plan_)};
    extend(maps[Source::kImages], {{0, trunk_[0].channels}, all});
    for (const int output : outputs_) {
      extend(maps[output], {{0, trunk_[static_cast<std::size_t>(output)].conv.filters}, all});
      extend(gradients[output], {{0, trunk_[static_cast<std::size_t>(output)].conv.filters}, all});
    }
  }
  const auto make = [this](const std::map<int, Box>& boxes, std::map<int, Slab>& slabs) {
    for (const auto& [stage, box] : boxes) {
      const int samples = box.samples.count * plan_.micro_batches;
      slabs[stage] = {Tensor(maps_shape(trunk_, stage, samples, box.channels.count)), box};
    }
  };
  make(maps, maps_);
  const auto images = maps_.find(Source::kImages);
  if (images != maps_.end()) pixels_ = {Pixels(images->second.values.shape()), images->second.box};
  make(gradients, gradients_);
  make(parts, parts_);
}

}  // namespace convoy
