#include "exchange/parcel.hpp"

#include <algorithm>
#include <vector>

namespace convoy {

NumberType kept_type(const Task& sent, const Plan& plan) {
  const NumberType type = wire_type(sent, plan);
  return type == NumberType::int8 ? NumberType::fp32 : type;
}

Bytes as_kept(const Task& sent, const Plan& plan, const Bytes& bytes) {
  const NumberType type = wire_type(sent, plan);
  if (type == kept_type(sent, plan)) return bytes;
  const auto floats = std::make_shared<std::vector<float>>(values_in(type, bytes.values.size()));
  decode(type, bytes.values.data(), *floats);
  return {floats, std::as_bytes(std::span<const float>(*floats))};
}

void take_floats(const Flight& flight, const Task& sent, const Plan& plan, AlignedVector<float>& to) {
  to.resize(flight.received);
  ArrivedValues(flight, kept_type(sent, plan)).decode_next(to);
}

void ArrivedValues::decode_next(std::span<float> to, bool add) {
  while (!to.empty()) {
    const std::span<const std::byte> left = held_[at_].values.subspan(done_);
    const std::size_t count = std::min(to.size(), values_in(type_, left.size()));
    (add ? decode_and_add : decode)(type_, left.data(), to.first(count));
    to = to.subspan(count);
    done_ += bytes_of(type_, count);
    if (done_ < held_[at_].values.size()) continue;
    ++at_;
    done_ = 0;
  }
}

}  // namespace convoy
