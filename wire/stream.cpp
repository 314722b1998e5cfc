#include "wire/stream.hpp"

#include <algorithm>
#include <utility>

namespace convoy::wire {
namespace {

template <class T>
std::vector<Typed<T>> in_fp32(const std::vector<std::span<T>>& values) {
  std::vector<Typed<T>> typed;
  for (const std::span<T> each : values) typed.push_back({each});
  return typed;
}

template <class T, class State>
std::vector<Typed<T>> typed_values(State& state, const Stage& stage, NumberType type) {
  const std::vector<ParameterSpec> specs = parameters_of(stage, stage.conv.filters);
  invariant(specs.size() == state.parameters.size(), "the state is that of the stage");
  std::vector<Typed<T>> values;
  for (std::size_t p = 0; p < specs.size(); ++p) {
    auto& parameter = state.parameters[p];
    const NumberType travels_in = specs[p].trained ? type : NumberType::fp32;
    values.push_back({parameter.value.span(), travels_in});
    for (auto& moment : parameter.moments) values.push_back({moment.span(), travels_in});
  }
  return values;
}

}  // namespace

void send_values(const Piece& begin, const std::vector<Typed<const float>>& values,
                 const std::function<void(const Envelope&)>& send) {
  constexpr std::size_t kMost = kPieceBytes / sizeof(float);
  Piece piece = begin;
  for (const Typed<const float>& each : values) {
    std::span<const float> rest = each.values;
    while (!rest.empty()) {
      const auto some = rest.first(std::min(kMost, rest.size()));
      Envelope envelope{piece, Payload(bytes_of(each.type, some.size()))};
      encode(each.type, some, envelope.payload.bytes().data());
      send(envelope);
      piece.first += some.size();
      rest = rest.subspan(some.size());
    }
  }
}

void send_values(const Piece& begin, const std::vector<std::span<const float>>& values,
                 const std::function<void(const Envelope&)>& send) {
  send_values(begin, in_fp32(values), send);
}

ValueReader::ValueReader(std::vector<Typed<float>> values) : values_(std::move(values)) {
  std::erase_if(values_, [](const Typed<float>& each) { return each.values.empty(); });
  std::ranges::reverse(values_);
}

ValueReader::ValueReader(const std::vector<std::span<float>>& values) : ValueReader(in_fp32(values)) {}

void ValueReader::add(const Piece& piece, const Payload& payload) {
  const NumberType type = complete() ? NumberType::fp32 : values_.back().type;
  const std::size_t came = values_in(type, payload.size());
  const std::size_t due = complete() ? 0 : values_.back().values.size();
  if (came == 0 && !payload.empty()) {
    fail("a Piece has {} bytes, which are not a whole number of values of {} bytes", payload.size(), bytes_of(type, 1));
  }
  if (piece.first != next_ || came == 0 || came > due) {
    fail("a Piece has {} values from value {} on; at most {} values are due, from value {} on", came, piece.first, due,
         next_);
  }
  std::span<float>& rest = values_.back().values;
  decode(type, payload.bytes().data(), rest.first(came));
  rest = rest.subspan(came);
  if (rest.empty()) values_.pop_back();
  next_ += came;
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

std::vector<Typed<float>> values_of(ShardState& state, const Stage& stage, NumberType type) {
  return typed_values<float>(state, stage, type);
}

std::vector<Typed<const float>> values_of(const ShardState& state, const Stage& stage, NumberType type) {
  return typed_values<const float>(state, stage, type);
}

}  // namespace convoy::wire
