// The passes of a node's shards: maps come from other shards or from the host, and results go there.

#include "exchange/shard_pieces.hpp"

namespace convoy {
namespace {

/// The number of values of one channel of one sample.
std::size_t map_of(const DeviceTensor& tensor) {
  return static_cast<std::size_t>(tensor.shape().h) * static_cast<std::size_t>(tensor.shape().w);
}

}  // namespace

/// Collects the channels `joined` of the input reads_of()[number] of a task's stage, for the task's samples. The
/// channels that the node lacks are 0. `map` is the number of values of one channel of one sample. The result is valid
/// until the next call.
std::span<const float> NodeShards::gather(const std::vector<Read>& reads, std::size_t number, FilterRange joined,
                                          const Task& task, std::size_t map) {
  std::vector<const Read*> wanted;
  for (const Read& read : reads) {
    if (read.number == number) wanted.push_back(&read);
  }
  const SampleRange samples = plan_.samples(task.stage);
  if (wanted.size() == 1 && wanted[0]->stage >= 0 && wanted[0]->channels.count == joined.count) {
    const Slab& slab = *host_.maps(wanted[0]->stage);
    const SampleRange there = slab.place(task.micro_batch, samples);
    if (slab.channels() == wanted[0]->channels) return slab.values.samples(there.first, there.count);
  }
  const std::size_t sample = map * static_cast<std::size_t>(joined.count);
  scratch_.assign(sample * static_cast<std::size_t>(samples.count), 0.0F);
  for (const Read* read : wanted) {
    if (read->stage == Source::kZeros) continue;
    const int first = place(*host_.box(read->stage), task.micro_batch, samples).first;
    float* to = scratch_.data() + static_cast<std::size_t>(read->at - joined.first) * map;
    for (int n = 0; n < samples.count; ++n) {
      host_.copy(read->stage, first + n, read->channels, to + static_cast<std::size_t>(n) * sample);
    }
  }
  return scratch_;
}

/// Returns the input of a forward task on the device. Stages that read the same samples of the same sources share one
/// tensor, which is filled once for each micro-batch.
const DeviceTensor& NodeShards::input_of(const Task& task) {
  const auto stage = static_cast<std::size_t>(task.stage);
  Input& input = inputs_[input_of_[stage]];
  if (input.maps == nullptr) return *made_[input.from[0].stage];
  const auto micro_batch = static_cast<std::size_t>(task.micro_batch);
  if (input.written[micro_batch]) return *input.maps;
  input.written[micro_batch] = true;
  if (plan_.residence.inputs[stage][0]) {
    join_here(input.from, plan_.shard_samples(task), *input.maps);
  } else {
    write_input(task, input);
  }
  return *input.maps;
}

/// Writes a task's images to the device where the input of the stage is the images alone. Returns whether the input is.
bool NodeShards::write_images(const Task& task, Input& input) {
  const PixelSlab* images = host_.pixels();
  if (images == nullptr || input.from.size() != 1 || input.from[0].stage != Source::kImages) return false;
  if (input.from[0].channels != images->channels()) return false;
  const SampleRange there = images->place(task.micro_batch, input.samples);
  const std::span<const std::uint8_t> pixels = images->values.samples(there.first, there.count);
  const SampleRange samples = plan_.shard_samples(task);
  if (input.maps->write_pixels(samples, pixels, host_.normaliser())) return true;
  scratch_.resize(pixels.size());
  host_.normaliser().normalise(pixels, images->channels(), images->map(), scratch_.data());
  input.maps->write(samples, scratch_);
  return true;
}

/// Writes an input from the host to the device.
void NodeShards::write_input(const Task& task, Input& input) {
  if (write_images(task, input)) return;
  // Takes all channels that the node has of these samples, because the other stages that share this input may need
  // other channels.
  std::vector<Read> reads;
  int at = 0;
  for (const Source& source : input.from) {
    const Box* box = host_.box(source.stage);
    if (box != nullptr && common(box->samples, input.samples) == input.samples) {
      const FilterRange here = common(source.channels, box->channels);
      if (here.count > 0) reads.push_back({0, source.stage, here, at + here.first - source.channels.first});
    }
    at += source.channels.count;
  }
  input.maps->write(plan_.shard_samples(task), gather(reads, 0, {0, at}, task, map_of(*input.maps)));
}

/// Brings the maps that a shard's Add layers add.
void NodeShards::take_added(const Task& task, Piece& piece) {
  const auto stage = static_cast<std::size_t>(task.stage);
  const std::vector<Sources> reads = reads_of(plan_.trunk, stage);
  for (std::size_t i = 0; i < piece.added.size(); ++i) {
    const Sources& from = reads[i + 1];
    if (piece.added[i] == nullptr) {
      piece.shard->connect(i, *made_[from[0].stage]);
    } else if (plan_.residence.inputs[stage][i + 1]) {
      join_here(from, plan_.shard_samples(task), *piece.added[i]);
    } else {
      const std::size_t map = map_of(*piece.added[i]);
      piece.added[i]->write(plan_.shard_samples(task), gather(piece.reads, i + 1, piece.filters, task, map));
    }
  }
}

/// Puts maps of the node's own shards together on the device.
void NodeShards::join_here(const Sources& from, SampleRange samples, DeviceTensor& joined) const {
  int at = 0;
  for (const Source& source : from) {
    if (source.stage != Source::kZeros) {
      joined.take_channels(*made_[source.stage], source.channels, at, false, samples);
    }
    at += source.channels.count;
  }
}

namespace {

/// Returns where a shard's sample lies in a slab. The shard has the samples `tile` of every micro-batch.
int place_of(const Slab& slab, SampleRange tile, int sample) {
  return slab.place(sample / tile.count, {tile.first + sample % tile.count, 1}).first;
}

/// Copies samples of a shard's maps to their place in a slab.
void read_maps(const DeviceTensor& maps, SampleRange samples, const Box& tile, Slab& to,
               AlignedVector<float>& scratch) {
  if (to.box == tile) return maps.read(samples, to.values.samples(samples.first, samples.count));
  scratch.resize(static_cast<std::size_t>(samples.count) * maps.shape().sample_size());
  maps.read(samples, scratch);
  const float* from = scratch.data();
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    const std::span<float> run = to.run(place_of(to, tile.samples, n), tile.channels);
    std::copy_n(from, run.size(), run.data());
    from += run.size();
  }
}

/// Copies samples of a slab to a shard's tensor.
void write_maps(Slab& from, SampleRange samples, const Box& tile, DeviceTensor& to, AlignedVector<float>& scratch) {
  if (from.box == tile) return to.write(samples, from.values.samples(samples.first, samples.count));
  scratch.clear();
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    const std::span<const float> run = from.run(place_of(from, tile.samples, n), tile.channels);
    scratch.insert(scratch.end(), run.begin(), run.end());
  }
  to.write(samples, scratch);
}

}  // namespace

/// Takes samples of a shard's maps, which are ready. They are copied to their place in the node's maps where they are
/// needed on the host.
void NodeShards::take_made(const Piece& piece, const DeviceTensor& maps, SampleRange samples) {
  made_[piece.stage] = &maps;
  if (samples.count == 0 || !plan_.leaves(piece.stage)) return;
  const Box tile{piece.filters, plan_.samples(piece.stage)};
  read_maps(maps, samples, tile, host_.made(piece.stage), scratch_);
}

/// Copies samples of the gradient with respect to a shard's maps to the shard's device, unless it is there.
void NodeShards::write_gradient(Piece& piece, SampleRange samples) {
  if (plan_.adds_here(piece.stage) || plan_.from_heads(piece.stage)) return;
  const Box tile{piece.filters, plan_.samples(piece.stage)};
  write_maps(host_.gradient_by_made(piece.stage), samples, tile, *piece.gradient, scratch_);
}

void NodeShards::take_gradient(int stage, SampleRange samples, std::span<const float> values) {
  Piece& piece = pieces(stage).front();
  if (piece.backward) piece.gradient->write(samples, values);
}

void NodeShards::forward(const Task& task, const Pass& pass) {
  const DeviceTensor& input = input_of(task);
  for (Piece& piece : pieces(task.stage)) {
    take_added(task, piece);
    use_fresh(piece);
    const DeviceTensor& maps = piece.shard->forward(input, pass, plan_.shard_samples(task));
    take_made(piece, maps, piece.shard->spec().ready_after_forward(plan_.shard_samples(task), pass));
  }
  charge_to_stage();
}

/// The device may still compute in the background. A wait for the device charges the device's seconds to this stage,
/// not to the next. Of a member alone only the sum of all seconds counts, so the device goes on without a pause.
void NodeShards::charge_to_stage() const {
  if (plan_.plan.members.size() > 1) device_->finish();
}

/// Returns the gradient with respect to a shard's maps.
const DeviceTensor& NodeShards::gradient_for(const Piece& piece) const {
  return piece.gradient != nullptr ? *piece.gradient : *gradient_by_[piece.stage];
}

void NodeShards::backward_input(const Task& task) {
  const SampleRange samples = plan_.shard_samples(task);
  for (Piece& piece : pieces(task.stage)) {
    if (!piece.backward) continue;
    const SampleRange there = piece.shard->spec().read_by_backward(samples);
    if (there.count > 0) write_gradient(piece, there);
    const DeviceTensor* part = piece.shard->backward_input(gradient_for(piece), samples);
    if (part != nullptr) add_to_parts(task, piece, 0, *part);
    for (std::size_t i = 0; i < piece.added.size(); ++i) {
      add_to_parts(task, piece, i + 1, piece.shard->added_gradient(i));
    }
  }
  charge_to_stage();
}

/// Adds a gradient with respect to the input reads_of()[number] of a stage to the parts of the stages that it reads.
/// The gradient with respect to the input of an Add layer (number > 0) has only the channels of the piece's filters.
void NodeShards::add_to_parts(const Task& task, const Piece& piece, std::size_t number, const DeviceTensor& gradient) {
  const SampleRange samples = plan_.shard_samples(task);
  bool read_out = false;
  for (const Read& read : piece.reads) {
    if (read.number != number || !plan_.needs_gradient(read)) continue;
    const bool first = host_.first_reader(read.stage) == task.stage &&
                       &*std::ranges::find(piece.reads, read.stage, &Read::stage) == &read;
    const int at = read.at - (number > 0 ? piece.filters.first : 0);
    if (plan_.adds_here(read.stage)) {
      add_here(task, read, at, first, gradient);
      continue;
    }
    Slab& slab = host_.part(read.stage);
    const SampleRange all = slab.place(task.micro_batch, slab.box.samples);
    const SampleRange there = slab.place(task.micro_batch, plan_.samples(task.stage));
    if (first && there == all && read.channels == slab.channels() && gradient.shape().c == slab.channels().count) {
      gradient.read(samples, slab.values.samples(there.first, there.count));
      continue;
    }
    if (first) std::ranges::fill(slab.values.samples(all.first, all.count), 0.0F);
    if (!read_out) {
      scratch_.resize(static_cast<std::size_t>(samples.count) * gradient.shape().sample_size());
      gradient.read(samples, scratch_);
      read_out = true;
    }
    const std::size_t sample = gradient.shape().sample_size();
    const float* from = scratch_.data() + static_cast<std::size_t>(at) * slab.map();
    for (int n = 0; n < samples.count; ++n) {
      const std::span<float> to = slab.run(there.first + n, read.channels);
      const float* more = from + static_cast<std::size_t>(n) * sample;
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
    }
  }
}

/// Adds channels of a gradient, from `at` on, to the gradient with respect to the maps of the stage that they were read
/// from, which stays on the device. The `first` of all readers overwrites what was there.
void NodeShards::add_here(const Task& task, const Read& read, int at, bool first, const DeviceTensor& gradient) {
  const auto stage = static_cast<std::size_t>(read.stage);
  Piece& piece = pieces_[stage].front();
  if (piece.gradient == nullptr) {
    gradient_by_[stage] = &gradient;  // as it stands
    return;
  }
  const SampleRange samples = plan_.shard_samples(task);
  const bool whole = read.channels == piece.filters;
  if (first && !whole) {
    scratch_.assign(static_cast<std::size_t>(samples.count) * piece.gradient->shape().sample_size(), 0.0F);
    piece.gradient->write(samples, scratch_);
  }
  const bool added = !first || !whole;
  piece.gradient->take_channels(gradient, {at, read.channels.count}, read.channels.first, added, samples);
}

// ---- statistics ----------------------------------------------------------------------------------------------------

std::vector<float> NodeShards::find_statistics(const Task& task) {
  Piece& piece = pieces(task.stage).front();
  if (task.cargo == Cargo::moments) return piece.shard->moments();
  const ShardSpec& spec = piece.shard->spec();
  if (task.norm + 1 == batch_norms(spec.stage)) write_gradient(piece, {0, spec.batch});
  return piece.shard->slopes(gradient_for(piece));
}

void NodeShards::take_statistics(const Task& task, std::span<const double> joint) {
  Piece& piece = pieces(task.stage).front();
  if (task.cargo == Cargo::slopes) return piece.shard->take_slopes(joint);
  const DeviceTensor& maps = piece.shard->normalise(joint);
  const ShardSpec& spec = piece.shard->spec();
  if (task.norm + 1 == batch_norms(spec.stage)) take_made(piece, maps, {0, spec.batch});
  charge_to_stage();
}

}  // namespace convoy
