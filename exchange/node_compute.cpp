// The computing tasks of a node: they write maps from slabs to shards, run the shards, and read the results back.

#include "exchange/node_parts.hpp"

namespace convoy {
namespace {

/// The number of values of one channel of one sample.
std::size_t map_of(const DeviceTensor& tensor) {
  return static_cast<std::size_t>(tensor.shape().h) * static_cast<std::size_t>(tensor.shape().w);
}

}  // namespace

/// The slab that the shards of a stage write in the forward pass.
Slab& Node::made(int stage) { return thesis_ != nullptr ? thesis_->convolved(stage) : maps_.at(stage); }

/// The slab with the gradient with respect to made(stage).
Slab& Node::gradient_by_made(int stage) {
  if (thesis_ != nullptr) return thesis_->convolved_gradient(stage);
  return everywhere(stage) ? parts_.at(stage) : gradients_.at(stage);
}

/// Collects the channels `joined` of the input reads_of()[number] of a task's stage, for the task's samples. The
/// channels that the node lacks are 0. `map` is the number of values of one channel of one sample. The result is valid
/// until the next call.
std::span<const float> Node::gather(const std::vector<Read>& reads, std::size_t number, FilterRange joined,
                                    const Task& task, std::size_t map) {
  std::vector<const Read*> wanted;
  for (const Read& read : reads) {
    if (read.number == number) wanted.push_back(&read);
  }
  const SampleRange samples = tile_samples(task.stage);
  if (wanted.size() == 1 && wanted[0]->stage != Source::kZeros && wanted[0]->channels.count == joined.count) {
    const Slab& slab = maps_.at(wanted[0]->stage);
    const SampleRange there = slab.place(task.micro_batch, samples);
    if (slab.channels() == wanted[0]->channels) return slab.values.samples(there.first, there.count);
  }
  const std::size_t sample = map * static_cast<std::size_t>(joined.count);
  scratch_.assign(sample * static_cast<std::size_t>(samples.count), 0.0F);
  for (const Read* read : wanted) {
    if (read->stage == Source::kZeros) continue;
    Slab& slab = maps_.at(read->stage);
    const int first = slab.place(task.micro_batch, samples).first;
    float* to = scratch_.data() + static_cast<std::size_t>(read->at - joined.first) * map;
    for (int n = 0; n < samples.count; ++n) {
      std::ranges::copy(slab.run(first + n, read->channels), to + static_cast<std::size_t>(n) * sample);
    }
  }
  return scratch_;
}

/// Writes the inputs of a forward task to the device. Stages that read the same samples of the same sources share one
/// write for each micro-batch.
void Node::write_inputs(const Task& task) {
  Input& input = inputs_[input_of_[static_cast<std::size_t>(task.stage)]];
  const auto micro_batch = static_cast<std::size_t>(task.micro_batch);
  const SampleRange samples = shard_samples(task);
  if (!input.written[micro_batch]) {
    // Takes all channels that the node has of these samples, because the other stages that share this input may need
    // other channels.
    std::vector<Read> reads;
    int at = 0;
    for (const Source& source : input.from) {
      const auto slab = maps_.find(source.stage);
      if (slab != maps_.end() && common(slab->second.box.samples, input.samples) == input.samples) {
        const FilterRange here = common(source.channels, slab->second.channels());
        if (here.count > 0) reads.push_back({0, source.stage, here, at + here.first - source.channels.first});
      }
      at += source.channels.count;
    }
    input.maps->write(samples, gather(reads, 0, {0, at}, task, map_of(*input.maps)));
    input.written[micro_batch] = true;
  }
  for (Piece& piece : pieces_[static_cast<std::size_t>(task.stage)]) {
    for (std::size_t i = 0; i < piece.added.size(); ++i) {
      piece.added[i]->write(samples, gather(piece.reads, i + 1, piece.filters, task, map_of(*piece.added[i])));
    }
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

/// Copies samples of a shard's maps to their place in the node's maps.
void Node::read_made(const Piece& piece, const DeviceTensor& maps, SampleRange samples) {
  const Box tile{piece.filters, tile_samples(piece.stage)};
  read_maps(maps, samples, tile, made(piece.stage), scratch_);
}

/// Copies samples of the gradient with respect to a shard's maps to the shard's device.
void Node::write_gradient(Piece& piece, SampleRange samples) {
  const Box tile{piece.filters, tile_samples(piece.stage)};
  write_maps(gradient_by_made(piece.stage), samples, tile, *piece.gradient, scratch_);
}

void Node::forward(const Task& task) {
  write_inputs(task);
  const DeviceTensor& input = *inputs_[input_of_[static_cast<std::size_t>(task.stage)]].maps;
  for (Piece& piece : pieces_[static_cast<std::size_t>(task.stage)]) {
    use_fresh(piece);
    const DeviceTensor& maps = piece.shard->forward(input, pass_, shard_samples(task));
    const SampleRange ready = piece.shard->spec().ready_after_forward(shard_samples(task), pass_);
    if (ready.count > 0) read_made(piece, maps, ready);
  }
}

void Node::backward_input(const Task& task) {
  const SampleRange samples = shard_samples(task);
  for (Piece& piece : pieces_[static_cast<std::size_t>(task.stage)]) {
    if (piece.gradient == nullptr) continue;
    const SampleRange there = piece.shard->spec().read_by_backward(samples);
    if (there.count > 0) write_gradient(piece, there);
    const DeviceTensor* part = piece.shard->backward_input(*piece.gradient, samples);
    if (part != nullptr) add_to_parts(task, piece, 0, *part);
    for (std::size_t i = 0; i < piece.added.size(); ++i) {
      add_to_parts(task, piece, i + 1, piece.shard->added_gradient(i));
    }
  }
}

/// Adds a gradient with respect to the input reads_of()[number] of a stage to the parts_ of the stages that it reads.
/// The gradient with respect to the input of an Add layer (number > 0) has only the channels of the piece's filters.
void Node::add_to_parts(const Task& task, const Piece& piece, std::size_t number, const DeviceTensor& gradient) {
  const SampleRange samples = shard_samples(task);
  bool read_out = false;
  for (const Read& read : piece.reads) {
    if (read.number != number || read.stage < 0) continue;
    Slab& slab = parts_.at(read.stage);
    const bool first =
        first_part_.at(read.stage) == task.stage && &*std::ranges::find(piece.reads, read.stage, &Read::stage) == &read;
    const SampleRange all = slab.place(task.micro_batch, slab.box.samples);
    const SampleRange there = slab.place(task.micro_batch, tile_samples(task.stage));
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
    const int at = read.at - (number > 0 ? piece.filters.first : 0);
    const float* from = scratch_.data() + static_cast<std::size_t>(at) * slab.map();
    for (int n = 0; n < samples.count; ++n) {
      const std::span<float> to = slab.run(there.first + n, read.channels);
      const float* more = from + static_cast<std::size_t>(n) * sample;
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
    }
  }
}

}  // namespace convoy
