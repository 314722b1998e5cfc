#include "wire/stream.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace convoy::wire {
namespace {

constexpr std::size_t kLargestPiece = std::size_t{8} << 20;

std::size_t map_size(const Shape& shape) {
  return static_cast<std::size_t>(shape.h) * static_cast<std::size_t>(shape.w);
}

std::uint32_t u32(std::size_t value) { return static_cast<std::uint32_t>(value); }

/// Copies channels [first, ...) of the piece's samples out of `tensor`.
Envelope fill_piece(const Tensor& tensor, int first_channel, const Piece& piece, NumberType type) {
  const std::size_t map = map_size(tensor.shape());
  const std::size_t length = piece.channels * map;
  Envelope envelope{piece, Payload(piece.samples * length * bytes_of(type))};
  std::byte* to = envelope.payload.bytes().data();
  for (std::uint32_t i = 0; i < piece.samples; ++i) {
    const auto sample = tensor.sample(static_cast<int>(piece.sample + i));
    const std::size_t first = (static_cast<std::size_t>(first_channel) + piece.channel) * map;
    encode(type, sample.subspan(first, length), to + i * length * bytes_of(type));
  }
  return envelope;
}

using StatePart = Tensor ShardState::*;
constexpr std::array<StatePart, 4> kStateParts{&ShardState::weights, &ShardState::bias, &ShardState::weight_velocity,
                                               &ShardState::bias_velocity};

}  // namespace

std::vector<Piece> cut_pieces(const Shape& shape) {
  const std::size_t map_bytes = map_size(shape) * sizeof(float);
  if (map_bytes > kLargestPiece) {
    fail("a map of {}x{} is too large to send: {} bytes, {} at most", shape.h, shape.w, map_bytes, kLargestPiece);
  }
  const auto samples = static_cast<std::size_t>(shape.n);
  const auto channels = static_cast<std::size_t>(shape.c);
  const std::size_t sample_bytes = channels * map_bytes;
  std::vector<Piece> pieces;
  if (sample_bytes == 0) return pieces;
  const std::size_t samples_a_piece = kFrameBytes / sample_bytes;
  const std::size_t channels_a_piece = std::max<std::size_t>(1, kFrameBytes / map_bytes);
  for (std::size_t n = 0; n < samples; n += std::max<std::size_t>(1, samples_a_piece)) {
    if (samples_a_piece > 0) {
      pieces.push_back({0, u32(n), u32(std::min(samples_a_piece, samples - n)), 0, u32(channels)});
      continue;
    }
    for (std::size_t c = 0; c < channels; c += channels_a_piece) {
      pieces.push_back({0, u32(n), 1, u32(c), u32(std::min(channels_a_piece, channels - c))});
    }
  }
  return pieces;
}

std::vector<Envelope> make_pieces(const Tensor& tensor, NumberType type) {
  return make_pieces(tensor, {0, tensor.shape().c}, type);
}

std::vector<Envelope> make_pieces(const Tensor& tensor, FilterRange channels, NumberType type) {
  Shape shape = tensor.shape();
  invariant(channels.first >= 0 && channels.first + channels.count <= shape.c, "channels lie within the tensor");
  shape.c = channels.count;
  std::vector<Envelope> envelopes;
  for (const Piece& piece : cut_pieces(shape)) {
    envelopes.push_back(fill_piece(tensor, channels.first, piece, type));
  }
  return envelopes;
}

Tensor channel_slice(const Tensor& tensor, FilterRange channels) {
  Shape shape = tensor.shape();
  shape.c = channels.count;
  Tensor slice(shape);
  const std::size_t offset = static_cast<std::size_t>(channels.first) * map_size(shape);
  for (int n = 0; n < shape.n; ++n) {
    std::copy_n(tensor.sample(n).data() + offset, shape.sample_size(), slice.sample(n).data());
  }
  return slice;
}

std::vector<Envelope> make_state_pieces(const ShardState& state) {
  std::vector<Envelope> envelopes;
  for (std::size_t part = 0; part < kStateParts.size(); ++part) {
    for (Envelope& envelope : make_pieces(state.*kStateParts[part])) {
      std::get<Piece>(envelope.message).part = u32(part);
      envelopes.push_back(std::move(envelope));
    }
  }
  return envelopes;
}

Assembler::Assembler(const Shape& shape, std::span<float> values, NumberType type)
    : shape_(shape),
      values_(values),
      type_(type),
      have_(static_cast<std::size_t>(shape.n) * static_cast<std::size_t>(shape.c), false),
      missing_(have_.size()) {
  invariant(values.empty() || values.size() == shape.size(), "the tensor has room for its values");
}

void Assembler::add(const Piece& piece, std::span<const std::byte> bytes, NumberType type) {
  const auto samples = static_cast<std::uint32_t>(shape_.n);
  const auto channels = static_cast<std::uint32_t>(shape_.c);
  if (piece.part != 0 || piece.samples == 0 || piece.channels == 0 || piece.sample >= samples ||
      piece.samples > samples - piece.sample || piece.channel >= channels ||
      piece.channels > channels - piece.channel) {
    fail("a Piece (part {}, samples {}+{}, channels {}+{}) outside its tensor of {} samples and {} channels",
         piece.part, piece.sample, piece.samples, piece.channel, piece.channels, samples, channels);
  }
  const std::size_t map = map_size(shape_);
  const std::size_t length = piece.channels * map;
  const std::size_t sample_bytes = length * bytes_of(type);
  if (bytes.size() != piece.samples * sample_bytes) {
    fail("a Piece with {} bytes where {} are due", bytes.size(), piece.samples * sample_bytes);
  }
  for (std::uint32_t i = 0; i < piece.samples; ++i) {
    const std::size_t first = static_cast<std::size_t>(piece.sample + i) * channels + piece.channel;
    for (std::size_t c = first; c < first + piece.channels; ++c) {
      if (have_[c]) fail("a Piece of what came before (sample {}, channel {})", c / channels, c % channels);
      have_[c] = true;
    }
    if (!values_.empty()) decode(type, bytes.data() + i * sample_bytes, values_.subspan(first * map, length));
  }
  missing_ -= static_cast<std::size_t>(piece.samples) * piece.channels;
}

StateAssembler::StateAssembler(ShardState& state) {
  for (const StatePart part : kStateParts) parts_.emplace_back((state.*part).shape(), (state.*part).span());
}

void StateAssembler::add(const Piece& piece, const Payload& payload) {
  if (piece.part >= parts_.size()) fail("a Piece of part {} where a state has {}", piece.part, parts_.size());
  Piece within = piece;
  within.part = 0;
  parts_[piece.part].add(within, payload);
}

bool Assembler::complete(FilterRange channels) const {
  for (int n = 0; n < shape_.n; ++n) {
    const auto first = have_.begin() + static_cast<std::ptrdiff_t>(n) * shape_.c + channels.first;
    if (std::find(first, first + channels.count, false) != first + channels.count) return false;
  }
  return true;
}

bool StateAssembler::complete() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Assembler& part) { return part.complete(); });
}

}  // namespace convoy::wire
