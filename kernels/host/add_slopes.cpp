#include "kernels/host/add_slopes.hpp"

#include <cstddef>
#include <cstring>

#include "kernels/host/vectors.hpp"

namespace convoy {
namespace {

/// A plane, and its lanes' channels.
struct Plane {
  std::size_t pixels;
  std::size_t lanes;
  const float* mean;
  const float* constant;
  const float* slope;
};

template <class Values>
CONVOY_INLINE void add_to_lanes(const Plane& plane, std::size_t lane, const float* input, float* gradient) {
  Values mean;
  Values constant;
  Values slope;
  Values x;
  Values dx;
  std::memcpy(&mean, plane.mean + lane, sizeof(Values));
  std::memcpy(&constant, plane.constant + lane, sizeof(Values));
  std::memcpy(&slope, plane.slope + lane, sizeof(Values));
  std::memcpy(&x, input + lane, sizeof(Values));
  std::memcpy(&dx, gradient + lane, sizeof(Values));
  dx += constant + slope * (x - mean);
  std::memcpy(gradient + lane, &dx, sizeof(Values));
}

template <int kWidth>
CONVOY_INLINE void add_to_plane(const Plane& plane, const float* input, float* gradient) {
  for (std::size_t pixel = 0; pixel < plane.pixels; ++pixel) {
    const float* const x = input + pixel * plane.lanes;
    float* const dx = gradient + pixel * plane.lanes;
    std::size_t lane = 0;
    for (; lane + kWidth <= plane.lanes; lane += kWidth) {
      add_to_lanes<typename Vectors<kWidth>::Floats>(plane, lane, x, dx);
    }
    for (; lane < plane.lanes; ++lane) add_to_lanes<float>(plane, lane, x, dx);
  }
}

#ifdef CONVOY_WIDE
CONVOY_WIDE void add_to_plane_wide(const Plane& plane, const float* input, float* gradient) {
  add_to_plane<8>(plane, input, gradient);
}
CONVOY_WIDEST void add_to_plane_widest(const Plane& plane, const float* input, float* gradient) {
  add_to_plane<16>(plane, input, gradient);
}
#endif

void add_slopes_of(const Plane& plane, const float* input, float* gradient) {
#ifdef CONVOY_WIDE
  if (fills<16>(static_cast<int>(plane.lanes))) return add_to_plane_widest(plane, input, gradient);
  if (fills<8>(static_cast<int>(plane.lanes))) return add_to_plane_wide(plane, input, gradient);
#endif
  add_to_plane<4>(plane, input, gradient);
}

}  // namespace

void add_slopes(const LanedMaps& maps, int blocks, const SlopesOfChannels& channels, const float* input,
                float* gradient) {
  const std::size_t pixels = static_cast<std::size_t>(maps.height) * static_cast<std::size_t>(maps.width);
  const auto lanes = static_cast<std::size_t>(maps.lanes);
#pragma omp parallel for schedule(static)
  for (int plane = 0; plane < maps.planes; ++plane) {
    const std::size_t first = lanes * static_cast<std::size_t>(plane % blocks);
    const std::size_t at = static_cast<std::size_t>(plane) * pixels * lanes;
    add_slopes_of(
        {pixels, lanes, channels.mean.data() + first, channels.constant.data() + first, channels.slope.data() + first},
        input + at, gradient + at);
  }
}

}  // namespace convoy
