// Values on their way from node to node.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "core/number_type.hpp"
#include "core/tensor.hpp"
#include "exchange/node_plan.hpp"

namespace convoy {

/// Bytes in memory that `owner` keeps alive.
struct Bytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> values;
};

/// Some of the values of a send task, from index `first` on. Images are pixels, maps and gradients are in the plan's
/// number type, both in NCHW order; parameters are in fp32, one after another. Several parcels may share their bytes.
struct Parcel {
  int task = 0;           ///< index of the send task in the graph
  int to = 0;             ///< node that receives the parcel
  std::size_t first = 0;  ///< index of the first value
  Bytes bytes;
};

/// The functions through which a node sends to other nodes.
struct Carrier {
  std::function<void(Parcel&&)> send;
  /// Allows node `to` to send one more parcel with a part of a gradient.
  std::function<void(int to)> grant;
};

/// The values of a send task while they arrive.
struct Flight {
  std::size_t received = 0;  ///< number of values that arrived
  /// Values that cannot be used yet: addends before their turn, incomplete weights, gradients of weights.
  std::deque<Bytes> held;
};
/// By send task.
using Flights = std::map<int, Flight>;

/// The number type in which received values wait for their turn.
NumberType kept_type(const Task& sent, const Plan& plan);
/// Decodes int8 values to floats when they arrive. Their blocks follow the order of sending, so they cannot be split
/// into contiguous runs of a slab.
Bytes as_kept(const Task& sent, const Plan& plan, const Bytes& bytes);
/// Decodes the values of a send task that have arrived to `to`.
void take_floats(const Flight& flight, const Task& sent, const Plan& plan, AlignedVector<float>& to);

/// The values of a send task that have arrived, from the first on, to be decoded straight to several places.
class ArrivedValues {
 public:
  ArrivedValues(const Flight& flight, NumberType type) : type_(type), held_(flight.held) {}
  /// Decodes the next to.size() values and writes them to `to`, or with `add` adds them to the values there.
  void decode_next(std::span<float> to, bool add = false);

 private:
  NumberType type_;
  const std::deque<Bytes>& held_;
  std::size_t at_ = 0;    ///< index of the next values' bytes
  std::size_t done_ = 0;  ///< bytes of these that were decoded
};

}  // namespace convoy
