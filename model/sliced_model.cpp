#include "model/sliced_model.hpp"

#include <algorithm>
#include <utility>

namespace convoy {
namespace {

/// Copies the columns of some channels from one matrix with a row for each unit to another, whose channels begin
/// elsewhere.
void copy_columns(const Tensor& from, std::size_t from_first, Tensor& to, std::size_t to_first, std::size_t count) {
  const auto units = static_cast<std::size_t>(from.shape().n);
  const std::size_t from_row = from.shape().sample_size();
  const std::size_t to_row = to.shape().sample_size();
  for (std::size_t unit = 0; unit < units; ++unit) {
    std::copy_n(from.data() + unit * from_row + from_first, count, to.data() + unit * to_row + to_first);
  }
}

std::size_t values_of_channel(const DenseSlices& slices) {
  const Stage& slice = slices.cut.trunk[slices.first];
  return static_cast<std::size_t>(slice.height) * static_cast<std::size_t>(slice.width);
}

std::size_t channels_of(const DenseSlices& slices) {
  return static_cast<std::size_t>(slices.channels.back().first + slices.channels.back().count);
}

Parameter columns_of(const Parameter& whole, const DenseSlices& slices, std::size_t number) {
  const Stage& slice = slices.cut.trunk[slices.first + number];
  const std::size_t size = values_of_channel(slices);
  const auto first = static_cast<std::size_t>(slices.channels[number].first) * size;
  const auto count = static_cast<std::size_t>(slices.channels[number].count) * size;
  const auto cut = [&](const Tensor& from) {
    Tensor part(weight_shape(slice, slice.conv.filters));
    copy_columns(from, first, part, 0, count);
    return part;
  };
  Parameter part{cut(whole.value), {}};
  for (const Tensor& moment : whole.moments) part.moments.push_back(cut(moment));
  return part;
}

void paste_columns(const Parameter& part, const DenseSlices& slices, std::size_t number, Parameter& whole) {
  const std::size_t size = values_of_channel(slices);
  const auto first = static_cast<std::size_t>(slices.channels[number].first) * size;
  const auto count = static_cast<std::size_t>(slices.channels[number].count) * size;
  copy_columns(part.value, 0, whole.value, first, count);
  for (std::size_t m = 0; m < whole.moments.size(); ++m) {
    copy_columns(part.moments[m], 0, whole.moments[m], first, count);
  }
}

}  // namespace

ModelState sliced(const ModelState& whole, const DenseSlices& slices) {
  ModelState made{whole.trunk, {std::next(whole.head.begin()), whole.head.end()}};
  const DenseState<float>& dense = whole.head.front();
  for (std::size_t number = 0; number < slices.channels.size(); ++number) {
    ShardState& slice = made.trunk.emplace_back();
    slice.parameters.push_back(columns_of(dense.weights, slices, number));
    if (number == 0) slice.parameters.push_back(dense.bias);
  }
  made.trunk.emplace_back();  // the stage that adds the sums has no parameters
  return made;
}

ModelState joined(const ModelState& sliced, const DenseSlices& slices) {
  const auto end_of_whole = sliced.trunk.begin() + static_cast<std::ptrdiff_t>(slices.first);
  ModelState made{{sliced.trunk.begin(), end_of_whole}, {}};
  const ShardState& first = sliced.trunk[slices.first];
  const Shape shape{first.weights().shape().n, static_cast<int>(channels_of(slices) * values_of_channel(slices))};
  DenseState<float> dense{
      .name = slices.cut.trunk.back().name, .weights = {Tensor(shape), {}}, .bias = first.parameters[1]};
  dense.weights.moments.assign(first.parameters[0].moments.size(), Tensor(shape));
  for (std::size_t number = 0; number < slices.channels.size(); ++number) {
    paste_columns(sliced.trunk[slices.first + number].parameters[0], slices, number, dense.weights);
  }
  made.head.push_back(std::move(dense));
  made.head.insert(made.head.end(), sliced.head.begin(), sliced.head.end());
  return made;
}

}  // namespace convoy
