#include "kernels/host/max_pool.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/error.hpp"

namespace convoy {
namespace {

// Vectors use the compiler's extension, with the width of the instruction set that it compiles for.
#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif

/// Several lanes in one vector, and a single lane.
struct Several {
  using Value = float __attribute__((vector_size(kWidth * sizeof(float))));
  using Place = std::int32_t __attribute__((vector_size(kWidth * sizeof(std::int32_t))));
  using Stored = PoolPlace __attribute__((vector_size(kWidth * sizeof(PoolPlace))));
};
struct Single {
  using Value = float;
  using Place = std::int32_t;
};

void store(const Several::Place& places, PoolPlace* to) {
  const auto stored = __builtin_convertvector(places, Several::Stored);
  std::memcpy(to, &stored, sizeof(stored));
}
void store(std::int32_t place, PoolPlace* to) { *to = static_cast<PoolPlace>(place); }

void load(const PoolPlace* from, Several::Place& places) {
  Several::Stored stored;
  std::memcpy(&stored, from, sizeof(stored));
  places = __builtin_convertvector(stored, Several::Place);
}
void load(const PoolPlace* from, std::int32_t& place) { place = *from; }

template <class Work>
void for_each_lane(int lanes, Work work) {
  int lane = 0;
  for (; lane + kWidth <= lanes; lane += kWidth) work(lane, Several());
  for (; lane < lanes; ++lane) work(lane, Single());
}

/// Positions first .. last - 1.
struct Range {
  int first;
  int last;
};

/// Returns the elements from the first to the last under the window at an output position, clipped at the border.
Range under(int position, int stride, int reach, int pad, int extent) {
  const int start = position * stride - pad;
  return {std::max(start, 0), std::min(start + reach, extent)};
}

/// Returns the output positions between whose windows' first and last elements an element lies.
Range over(int element, int stride, int reach, int pad, int positions) {
  const int beyond = element + pad - reach;
  return {beyond < 0 ? 0 : beyond / stride + 1, std::min((element + pad) / stride + 1, positions)};
}

/// The place of an element that lies between the elements of a dilated window.
constexpr std::int32_t kBetween = -1;

/// Sums of values, which are NaN if a value is NaN (or for infinities of both signs). A sum costs less than a
/// comparison of each value with NaN.
struct Traces {
  Several::Value several{};
  float single = 0.0F;

  Several::Value& of(Several) { return several; }
  float& of(Single) { return single; }
  bool nan() const {
    float sum = single;
    for (int i = 0; i < kWidth; ++i) sum += several[i];
    return std::isnan(sum);
  }
};

/// Pools a window. Without `exact`, NaN may be passed over, but it is then in `trace`.
template <bool exact, class Lanes>
void pool_window(std::span<const PoolCover> covers, const float* plane, bool after_relu, float* output,
                 PoolPlace* places, typename Lanes::Value& trace) {
  using Place = typename Lanes::Place;
  typename Lanes::Value best;
  std::memcpy(&best, plane + covers.front().at, sizeof(best));
  trace += best;
  Place place = Place{} + covers.front().place;
  for (const PoolCover& cover : covers.subspan(1)) {
    typename Lanes::Value value;
    std::memcpy(&value, plane + cover.at, sizeof(value));
    auto wins = value > best;
    if constexpr (exact) wins = wins | (value != value);
    if constexpr (!exact) trace += value;
    place = wins ? Place{} + cover.place : place;
    best = wins ? value : best;
  }
  if (after_relu) place = best <= 0.0F ? Place{} + kNoPlace : place;
  std::memcpy(output, &best, sizeof(best));
  store(place, places);
}

template <class Lanes>
void gather(std::span<const PoolCover> covers, const float* gradient, const PoolPlace* places, float* to) {
  typename Lanes::Value sum{};
  for (const PoolCover& cover : covers) {
    typename Lanes::Value value;
    typename Lanes::Place place;
    std::memcpy(&value, gradient + cover.at, sizeof(value));
    load(places + cover.at, place);
    sum += place == cover.place ? value : typename Lanes::Value{};
  }
  std::memcpy(to, &sum, sizeof(sum));
}

}  // namespace

template <class Rows, class Columns, class Cover>
MaxPool::CoverTable::CoverTable(const Shape& map, Rows rows_of, Columns columns_of, Cover cover) {
  for (int y = 0; y < map.h; ++y) {
    const Range rows = rows_of(y);
    for (int x = 0; x < map.w; ++x) {
      const Range columns = columns_of(x);
      for (int r = rows.first; r < rows.last; ++r) {
        for (int c = columns.first; c < columns.last; ++c) {
          const PoolCover found = cover(y, x, r, c);
          if (found.place != kBetween) covers.push_back(found);
        }
      }
      ends.push_back(covers.size());
    }
  }
}

MaxPool::MaxPool(const Pooling& pool, const LanedMaps& maps)
    : in_(maps), out_(pooled_shape(pool, {1, 1, maps.height, maps.width})) {
  invariant(pool.kernel_h * pool.kernel_w < kNoPlace, "the places of the window fit into 16 bits");
  const auto place = [&](int y, int x, int out_y, int out_x) {
    const int row = y - out_y * pool.stride_h + pool.pad.top;
    const int column = x - out_x * pool.stride_w + pool.pad.left;
    if (row % pool.dilation_h != 0 || column % pool.dilation_w != 0) return kBetween;
    return row / pool.dilation_h * pool.kernel_w + column / pool.dilation_w;
  };
  elements_ = CoverTable(
      out_, [&](int y) { return under(y, pool.stride_h, pool.reach_h(), pool.pad.top, in_.height); },
      [&](int x) { return under(x, pool.stride_w, pool.reach_w(), pool.pad.left, in_.width); },
      [&](int out_y, int out_x, int y, int x) {
        return PoolCover{lanes_in(y * in_.width + x), place(y, x, out_y, out_x)};
      });
  windows_ = CoverTable(
      {1, 1, in_.height, in_.width},
      [&](int y) { return over(y, pool.stride_h, pool.reach_h(), pool.pad.top, out_.h); },
      [&](int x) { return over(x, pool.stride_w, pool.reach_w(), pool.pad.left, out_.w); },
      [&](int y, int x, int out_y, int out_x) {
        return PoolCover{lanes_in(out_y * out_.w + out_x), place(y, x, out_y, out_x)};
      });
}

std::span<const PoolCover> MaxPool::CoverTable::of(std::size_t pixel) const {
  const std::size_t start = pixel == 0 ? 0 : ends[pixel - 1];
  return std::span(covers).subspan(start, ends[pixel] - start);
}

void MaxPool::forward(const float* input, bool after_relu, float* output, PoolPlace* places) const {
  const std::size_t pixels = static_cast<std::size_t>(out_.h) * out_.w;
  const std::size_t plane = lanes_in(static_cast<std::size_t>(in_.height) * in_.width);
#pragma omp parallel for collapse(2) schedule(static)
  for (int p = 0; p < in_.planes; ++p) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const float* from = input + p * plane;
      const std::size_t to = lanes_in(p * pixels + i);
      Traces traces;
      const auto pool = [&, covers = elements_.of(i)](auto exact) {
        for_each_lane(in_.lanes, [&](int lane, auto lanes) {
          pool_window<decltype(exact)::value, decltype(lanes)>(covers, from + lane, after_relu, output + to + lane,
                                                               places + to + lane, traces.of(lanes));
        });
      };
      pool(std::false_type());
      if (traces.nan()) pool(std::true_type());
    }
  }
}

void MaxPool::backward(const float* gradient, const PoolPlace* places, float* input_gradient) const {
  const std::size_t pixels = static_cast<std::size_t>(in_.height) * in_.width;
  const std::size_t plane = lanes_in(static_cast<std::size_t>(out_.h) * out_.w);
#pragma omp parallel for collapse(2) schedule(static)
  for (int p = 0; p < in_.planes; ++p) {
    for (std::size_t i = 0; i < pixels; ++i) {
      const std::size_t from = p * plane;
      float* to = input_gradient + lanes_in(p * pixels + i);
      for_each_lane(in_.lanes, [&, covers = windows_.of(i)](int lane, auto lanes) {
        gather<decltype(lanes)>(covers, gradient + from + lane, places + from + lane, to + lane);
      });
    }
  }
}

}  // namespace convoy
