#include "exchange/parcel.hpp"

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

void take_floats(const Flight& flight, const Task& sent, const Plan& plan, std::size_t count,
                 AlignedVector<float>& to) {
  const NumberType type = kept_type(sent, plan);
  to.resize(count);
  std::span<float> left = to;
  for (const Bytes& bytes : flight.held) {
    const std::size_t some = values_in(type, bytes.values.size());
    decode(type, bytes.values.data(), left.first(some));
    left = left.subspan(some);
  }
}

}  // namespace convoy
