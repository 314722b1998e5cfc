#include "kernels/host/batch_statistics.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "kernels/host/vectors.hpp"

namespace convoy {
namespace {

/// Adds the pixels of kCount vectors of kWidth lanes. `stride` is the distance of two pixels.
template <int kWidth, int kCount>
CONVOY_INLINE void add_vectors(const float* x, std::size_t pixels, std::size_t stride, const float* shifts,
                               double* distances, double* squares) {
  using Floats = typename Vectors<kWidth>::Floats;
  using Doubles = typename Vectors<kWidth>::Doubles;
  Doubles shift[kCount];
  Doubles sum[kCount];
  Doubles square[kCount];
  for (int v = 0; v < kCount; ++v) {
    Floats some;
    std::memcpy(&some, shifts + v * kWidth, sizeof(some));
    shift[v] = __builtin_convertvector(some, Doubles);
    std::memcpy(&sum[v], distances + v * kWidth, sizeof(Doubles));
    std::memcpy(&square[v], squares + v * kWidth, sizeof(Doubles));
  }
  for (std::size_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      Floats some;
      std::memcpy(&some, x + p * stride + static_cast<std::size_t>(v * kWidth), sizeof(some));
      const Doubles distance = __builtin_convertvector(some, Doubles) - shift[v];
      sum[v] += distance;
      square[v] += distance * distance;
    }
  }
  for (int v = 0; v < kCount; ++v) {
    std::memcpy(distances + v * kWidth, &sum[v], sizeof(Doubles));
    std::memcpy(squares + v * kWidth, &square[v], sizeof(Doubles));
  }
}

CONVOY_INLINE void add_lane(const float* x, std::size_t pixels, std::size_t stride, float shift, double& distances,
                            double& squares) {
  for (std::size_t p = 0; p < pixels; ++p) {
    const double distance = static_cast<double>(x[p * stride]) - static_cast<double>(shift);
    distances += distance;
    squares += distance * distance;
  }
}

template <int kWidth>
CONVOY_INLINE void add_lanes(const float* x, std::size_t pixels, std::size_t stride, int lanes, const float* shifts,
                             double* distances, double* squares) {
  if (lanes == 16) return add_vectors<kWidth, 16 / kWidth>(x, pixels, stride, shifts, distances, squares);
  if (lanes == 8) return add_vectors<kWidth, 8 / kWidth>(x, pixels, stride, shifts, distances, squares);
  int lane = 0;
  for (; lane + 4 <= lanes; lane += 4) {
    add_vectors<4, 1>(x + lane, pixels, stride, shifts + lane, distances + lane, squares + lane);
  }
  for (; lane < lanes; ++lane) add_lane(x + lane, pixels, stride, shifts[lane], distances[lane], squares[lane]);
}

#ifdef CONVOY_WIDE
CONVOY_WIDE void add_lanes_wide(const float* x, std::size_t pixels, std::size_t stride, int lanes, const float* shifts,
                                double* distances, double* squares) {
  add_lanes<4>(x, pixels, stride, lanes, shifts, distances, squares);
}

CONVOY_WIDEST void add_lanes_widest(const float* x, std::size_t pixels, std::size_t stride, int lanes,
                                    const float* shifts, double* distances, double* squares) {
  add_lanes<8>(x, pixels, stride, lanes, shifts, distances, squares);
}
#endif

void add(const float* x, std::size_t pixels, std::size_t stride, int lanes, const float* shifts, double* distances,
         double* squares) {
#ifdef CONVOY_WIDE
  if (has_widest_vectors()) return add_lanes_widest(x, pixels, stride, lanes, shifts, distances, squares);
  if (has_wide_vectors()) return add_lanes_wide(x, pixels, stride, lanes, shifts, distances, squares);
#endif
  add_lanes<4>(x, pixels, stride, lanes, shifts, distances, squares);
}

}  // namespace

BatchStatistics::BatchStatistics(const Shape& shape, const LanedMaps& maps)
    : channels_(shape.c),
      lanes_(maps.lanes),
      blocks_(maps.planes / shape.n),
      groups_((maps.lanes + kLanes - 1) / kLanes),
      pixels_(static_cast<std::size_t>(shape.n) * shape.h * shape.w),
      run_(static_cast<std::size_t>(shape.h) * shape.w),
      mean_(static_cast<std::size_t>(shape.c)),
      variance_(static_cast<std::size_t>(shape.c)) {
  // Where a sample is one plane, all pixels follow each other. The groups of a run then read it from the cache.
  constexpr std::size_t kRunValues = 32768;
  if (blocks_ == 1) run_ = std::max<std::size_t>(1, kRunValues / static_cast<std::size_t>(lanes_));
  runs_ = static_cast<int>((pixels_ + run_ - 1) / run_);
  // Parts for many threads. Their number depends on the shape only, and so do the bits of the sums.
  constexpr int kParts = 64;
  slices_ = std::min(runs_, (kParts + blocks_ - 1) / blocks_);
  sums_.resize(static_cast<std::size_t>(slices_) * blocks_ * groups_);
}

void BatchStatistics::find(const float* maps) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int slice = 0; slice < slices_; ++slice) {
    for (int block = 0; block < blocks_; ++block) {
      const auto runs_until = [&](int end) { return static_cast<int>(std::int64_t{runs_} * end / slices_); };
      add_up(maps, block, runs_until(slice), runs_until(slice + 1), &sums_[(slice * blocks_ + block) * groups_]);
    }
  }
#pragma omp parallel for collapse(2) schedule(static)
  for (int block = 0; block < blocks_; ++block) {
    for (int group = 0; group < groups_; ++group) finish(maps, block, group);
  }
}

void BatchStatistics::add_up(const float* maps, int block, int first_run, int last_run, Sums* sums) const {
  std::fill_n(sums, groups_, Sums{});
  const float* first_sample = maps + block * run_ * lanes_;
  for (auto run = static_cast<std::size_t>(first_run); run < static_cast<std::size_t>(last_run); ++run) {
    const float* x = first_sample + run * run_ * blocks_ * lanes_;
    const std::size_t pixels = std::min(run_, pixels_ - run * run_);
    if (lanes_ == 1) {
      // The pixels take the place of the lanes.
      float shifts[kLanes];
      std::fill_n(shifts, kLanes, *first_sample);
      const std::size_t left = pixels % kLanes;
      add(x, pixels / kLanes, kLanes, kLanes, shifts, sums->distances, sums->squares);
      add(x + pixels - left, 1, left, static_cast<int>(left), shifts, sums->distances, sums->squares);
      continue;
    }
    for (int group = 0; group < groups_; ++group) {
      const int lane = group * kLanes;
      add(x + lane, pixels, lanes_, std::min(kLanes, lanes_ - lane), first_sample + lane, sums[group].distances,
          sums[group].squares);
    }
  }
}

void BatchStatistics::finish(const float* maps, int block, int group) {
  Sums sums{};
  for (int slice = 0; slice < slices_; ++slice) {
    const Sums& part = sums_[(slice * blocks_ + block) * groups_ + group];
    for (int lane = 0; lane < kLanes; ++lane) {
      sums.distances[lane] += part.distances[lane];
      sums.squares[lane] += part.squares[lane];
    }
  }
  if (lanes_ == 1) {
    sums.distances[0] = std::accumulate(sums.distances, sums.distances + kLanes, 0.0);
    sums.squares[0] = std::accumulate(sums.squares, sums.squares + kLanes, 0.0);
  }
  const auto count = static_cast<double>(pixels_);
  const float* first_values = maps + block * run_ * lanes_ + group * kLanes;
  const int channel = block * lanes_ + group * kLanes;
  const int lanes = std::min({kLanes, lanes_ - group * kLanes, channels_ - channel});
  for (int lane = 0; lane < lanes; ++lane) {
    const double distance = sums.distances[lane] / count;
    const double variance = sums.squares[lane] / count - distance * distance;
    mean_[channel + lane] = static_cast<double>(first_values[lane]) + distance;
    variance_[channel + lane] = variance < 0.0 ? 0.0 : variance;  // NaN stays NaN
  }
}

}  // namespace convoy
