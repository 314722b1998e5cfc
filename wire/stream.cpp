#include "wire/stream.hpp"

#include <algorithm>

namespace convoy::wire {

void send_values(const Piece& begin, const std::vector<std::span<const float>>& values,
                 const std::function<void(const Envelope&)>& send) {
  constexpr std::size_t kMost = kPieceBytes / sizeof(float);
  Piece piece = begin;
  for (std::span<const float> rest : values) {
    while (!rest.empty()) {
      const auto some = rest.first(std::min(kMost, rest.size()));
      Envelope envelope{piece, Payload(some.size_bytes())};
      std::ranges::copy(some, envelope.payload.floats().begin());
      send(envelope);
      piece.first += some.size();
      rest = rest.subspan(some.size());
    }
  }
}

ValueReader::ValueReader(std::vector<std::span<float>> values) : values_(std::move(values)) {
  std::erase_if(values_, [](std::span<float> each) { return each.empty(); });
  std::ranges::reverse(values_);
}

void ValueReader::add(const Piece& piece, const Payload& payload) {
  const std::span<const float> came = payload.floats();
  const std::size_t due = complete() ? 0 : values_.back().size();
  if (piece.first != next_ || came.empty() || came.size() > due) {
    fail("a Piece has {} values from value {} on; at most {} values are due, from value {} on", came.size(),
         piece.first, due, next_);
  }
  std::ranges::copy(came, values_.back().begin());
  values_.back() = values_.back().subspan(came.size());
  if (values_.back().empty()) values_.pop_back();
  next_ += came.size();
}

std::vector<std::span<float>> values_of(ShardState& state) {
  std::vector<std::span<float>> values;
  for_each_tensor(state, [&](Tensor& tensor) { values.push_back(tensor.span()); });
  return values;
}

std::vector<std::span<const float>> values_of(const ShardState& state) {
  std::vector<std::span<const float>> values;
  for_each_tensor(state, [&](const Tensor& tensor) { values.push_back(tensor.span()); });
  return values;
}

}  // namespace convoy::wire
