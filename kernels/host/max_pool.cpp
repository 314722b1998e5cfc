#include "kernels/host/max_pool.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "kernels/host/vectors.hpp"

namespace convoy {
namespace {

/// Several lanes in one vector, and a single lane.
template <int kWidth>
struct Several {
  using Value = typename Vectors<kWidth>::Floats;
  using Place = typename Vectors<kWidth>::Ints;
  using Stored = typename Vectors<kWidth>::Shorts;

  static CONVOY_INLINE void store(const Place& places, PoolPlace* to) {
    const auto stored = __builtin_convertvector(places, Stored);
    std::memcpy(to, &stored, sizeof(stored));
  }
  static CONVOY_INLINE void load(const PoolPlace* from, Place& places) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(stored));
    places = __builtin_convertvector(stored, Place);
  }
};
struct Single {
  using Value = float;
  using Place = std::int32_t;

  static CONVOY_INLINE void store(std::int32_t place, PoolPlace* to) { *to = static_cast<PoolPlace>(place); }
  static CONVOY_INLINE void load(const PoolPlace* from, std::int32_t& place) { place = *from; }
};

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

/// Pools a window. Without `exact`, NaN may be passed over, but then `trace` becomes NaN. It also does where infinities
/// of both signs meet. A sum costs less than a comparison of each value with NaN.
template <bool exact, class Lanes>
CONVOY_INLINE void pool_window(std::span<const PoolCover> covers, const float* plane, bool after_relu, float* output,
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
  Lanes::store(place, places);
}

/// Pools all lanes of a window. Returns whether it may have passed over a NaN.
template <int kWidth, bool exact>
CONVOY_INLINE bool pool_lanes(std::span<const PoolCover> covers, int lanes, const float* plane, bool after_relu,
                              float* output, PoolPlace* places) {
  typename Several<kWidth>::Value several{};
  float trace = 0.0F;
  int lane = 0;
  for (; lane + kWidth <= lanes; lane += kWidth) {
    pool_window<exact, Several<kWidth>>(covers, plane + lane, after_relu, output + lane, places + lane, several);
  }
  for (; lane < lanes; ++lane) {
    pool_window<exact, Single>(covers, plane + lane, after_relu, output + lane, places + lane, trace);
  }
  for (int i = 0; i < kWidth; ++i) trace += several[i];
  return std::isnan(trace);
}

template <class Lanes>
CONVOY_INLINE void gather_window(std::span<const PoolCover> covers, const float* gradient, const PoolPlace* places,
                                 float* to) {
  typename Lanes::Value sum{};
  for (const PoolCover& cover : covers) {
    typename Lanes::Value value;
    typename Lanes::Place place;
    std::memcpy(&value, gradient + cover.at, sizeof(value));
    Lanes::load(places + cover.at, place);
    sum += place == cover.place ? value : typename Lanes::Value{};
  }
  std::memcpy(to, &sum, sizeof(sum));
}

/// A pass over pixels first .. last - 1 of a plane.
struct Pixels {
  const PoolCovers& covers;
  int lanes;
  std::size_t first;
  std::size_t last;
};

template <int kWidth>
CONVOY_INLINE void pool(const Pixels& pixels, const float* plane, bool after_relu, float* output, PoolPlace* places) {
  for (std::size_t i = pixels.first; i < pixels.last; ++i) {
    const std::span<const PoolCover> covers = pixels.covers.of(i);
    const std::size_t to = i * static_cast<std::size_t>(pixels.lanes);
    if (pool_lanes<kWidth, false>(covers, pixels.lanes, plane, after_relu, output + to, places + to)) {
      pool_lanes<kWidth, true>(covers, pixels.lanes, plane, after_relu, output + to, places + to);
    }
  }
}

template <int kWidth>
CONVOY_INLINE void gather(const Pixels& pixels, const float* gradient, const PoolPlace* places, float* to) {
  for (std::size_t i = pixels.first; i < pixels.last; ++i) {
    const std::span<const PoolCover> covers = pixels.covers.of(i);
    float* const at = to + i * static_cast<std::size_t>(pixels.lanes);
    int lane = 0;
    for (; lane + kWidth <= pixels.lanes; lane += kWidth) {
      gather_window<Several<kWidth>>(covers, gradient + lane, places + lane, at + lane);
    }
    for (; lane < pixels.lanes; ++lane) gather_window<Single>(covers, gradient + lane, places + lane, at + lane);
  }
}

#ifdef CONVOY_WIDE
CONVOY_WIDE void pool_wide(const Pixels& pixels, const float* plane, bool after_relu, float* output,
                           PoolPlace* places) {
  pool<8>(pixels, plane, after_relu, output, places);
}
CONVOY_WIDEST void pool_widest(const Pixels& pixels, const float* plane, bool after_relu, float* output,
                               PoolPlace* places) {
  pool<16>(pixels, plane, after_relu, output, places);
}
CONVOY_WIDE void gather_wide(const Pixels& pixels, const float* gradient, const PoolPlace* places, float* to) {
  gather<8>(pixels, gradient, places, to);
}
CONVOY_WIDEST void gather_widest(const Pixels& pixels, const float* gradient, const PoolPlace* places, float* to) {
  gather<16>(pixels, gradient, places, to);
}
#endif

void pool_pixels(const Pixels& pixels, const float* plane, bool after_relu, float* output, PoolPlace* places) {
#ifdef CONVOY_WIDE
  if (fills<16>(pixels.lanes)) return pool_widest(pixels, plane, after_relu, output, places);
  if (fills<8>(pixels.lanes)) return pool_wide(pixels, plane, after_relu, output, places);
#endif
  pool<4>(pixels, plane, after_relu, output, places);
}

void gather_pixels(const Pixels& pixels, const float* gradient, const PoolPlace* places, float* to) {
#ifdef CONVOY_WIDE
  if (fills<16>(pixels.lanes)) return gather_widest(pixels, gradient, places, to);
  if (fills<8>(pixels.lanes)) return gather_wide(pixels, gradient, places, to);
#endif
  gather<4>(pixels, gradient, places, to);
}

/// Builds the table for the pixels of `map` in row-major order: cover(y, x, r, c) for every r in rows_of(y) and c in
/// columns_of(x), except covers that lie between the elements of a dilated window.
template <class Rows, class Columns, class Cover>
PoolCovers find_covers(const Shape& map, Rows rows_of, Columns columns_of, Cover cover) {
  PoolCovers table{.covers = {}, .starts = {0}};
  for (int y = 0; y < map.h; ++y) {
    const Range rows = rows_of(y);
    for (int x = 0; x < map.w; ++x) {
      const Range columns = columns_of(x);
      for (int r = rows.first; r < rows.last; ++r) {
        for (int c = columns.first; c < columns.last; ++c) {
          const PoolCover found = cover(y, x, r, c);
          if (found.place != kBetween) table.covers.push_back(found);
        }
      }
      table.starts.push_back(table.covers.size());
    }
  }
  return table;
}

}  // namespace

MaxPool::MaxPool(const Pooling& pool, const LanedMaps& maps)
    : in_(maps), out_(pooled_shape(pool, {1, 1, maps.height, maps.width})) {
  invariant(pool.kernel_h * pool.kernel_w < kNoPlace, "the places of the window fit into 16 bits");
  const auto place = [&](int y, int x, int out_y, int out_x) {
    const int row = y - out_y * pool.stride_h + pool.pad.top;
    const int column = x - out_x * pool.stride_w + pool.pad.left;
    if (row % pool.dilation_h != 0 || column % pool.dilation_w != 0) return kBetween;
    return row / pool.dilation_h * pool.kernel_w + column / pool.dilation_w;
  };
  elements_ = find_covers(
      out_, [&](int y) { return under(y, pool.stride_h, pool.reach_h(), pool.pad.top, in_.height); },
      [&](int x) { return under(x, pool.stride_w, pool.reach_w(), pool.pad.left, in_.width); },
      [&](int out_y, int out_x, int y, int x) {
        return PoolCover{lanes_in(y * in_.width + x), place(y, x, out_y, out_x)};
      });
  windows_ = find_covers(
      {1, 1, in_.height, in_.width},
      [&](int y) { return over(y, pool.stride_h, pool.reach_h(), pool.pad.top, out_.h); },
      [&](int x) { return over(x, pool.stride_w, pool.reach_w(), pool.pad.left, out_.w); },
      [&](int y, int x, int out_y, int out_x) {
        return PoolCover{lanes_in(out_y * out_.w + out_x), place(y, x, out_y, out_x)};
      });
}

void MaxPool::forward(const float* input, bool after_relu, float* output, PoolPlace* places) const {
  const auto row = static_cast<std::size_t>(out_.w);
  const std::size_t plane = lanes_in(static_cast<std::size_t>(in_.height) * in_.width);
  const std::size_t made = lanes_in(static_cast<std::size_t>(out_.h) * row);
#pragma omp parallel for collapse(2) schedule(static)
  for (int p = 0; p < in_.planes; ++p) {
    for (int y = 0; y < out_.h; ++y) {
      pool_pixels({elements_, in_.lanes, y * row, (y + 1) * row}, input + p * plane, after_relu, output + p * made,
                  places + p * made);
    }
  }
}

void MaxPool::backward(const float* gradient, const PoolPlace* places, float* input_gradient) const {
  const auto row = static_cast<std::size_t>(in_.width);
  const std::size_t plane = lanes_in(static_cast<std::size_t>(in_.height) * row);
  const std::size_t made = lanes_in(static_cast<std::size_t>(out_.h) * out_.w);
#pragma omp parallel for collapse(2) schedule(static)
  for (int p = 0; p < in_.planes; ++p) {
    for (int y = 0; y < in_.height; ++y) {
      gather_pixels({windows_, in_.lanes, y * row, (y + 1) * row}, gradient + p * made, places + p * made,
                    input_gradient + p * plane);
    }
  }
}

}  // namespace convoy
