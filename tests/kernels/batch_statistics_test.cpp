#include "kernels/host/batch_statistics.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "core/random.hpp"

namespace convoy {
namespace {

struct Layout {
  std::string name;
  Shape shape;
  int lanes;  ///< as many as channels: channels-last; 1: NCHW; else blocks

  LanedMaps maps() const { return {shape.n * ((shape.c + lanes - 1) / lanes), shape.h, shape.w, lanes}; }
  /// Returns the offset of a value.
  std::size_t at(int n, int c, int pixel) const {
    const int blocks = (shape.c + lanes - 1) / lanes;
    const auto plane = static_cast<std::size_t>(n * blocks + c / lanes);
    return (plane * static_cast<std::size_t>(shape.h * shape.w) + static_cast<std::size_t>(pixel)) *
               static_cast<std::size_t>(lanes) +
           static_cast<std::size_t>(c % lanes);
  }
  std::size_t size() const {
    const LanedMaps all = maps();
    return static_cast<std::size_t>(all.planes) * static_cast<std::size_t>(all.height * all.width * all.lanes);
  }
  template <class Visit>
  void for_each_of(int c, Visit visit) const {
    for (int n = 0; n < shape.n; ++n) {
      for (int pixel = 0; pixel < shape.h * shape.w; ++pixel) visit(at(n, c, pixel));
    }
  }
};

class Statistics : public testing::TestWithParam<Layout> {
 protected:
  /// Returns maps whose channel c has the mean c * `apart`. What pads the channels to blocks is NaN.
  std::vector<float> maps_of(float apart) const {
    const Layout& layout = GetParam();
    Random random(3, 4);
    std::vector<float> maps(layout.size(), std::numeric_limits<float>::quiet_NaN());
    for (int c = 0; c < layout.shape.c; ++c) {
      const float mean = static_cast<float>(c) * apart;
      layout.for_each_of(c, [&](std::size_t i) { maps[i] = mean + random.uniform(-1.0F, 1.0F); });
    }
    return maps;
  }
  BatchStatistics found(const std::vector<float>& maps) const {
    BatchStatistics statistics(GetParam().shape, GetParam().maps());
    statistics.find(maps.data());
    return statistics;
  }
};

/// The distance from means up to 1e6 tells sums of distances from sums of the values' own squares.
TEST_P(Statistics, AreThoseOfTwoPassesInDoublePrecision) {
  const Layout& layout = GetParam();
  const std::vector<float> maps = maps_of(1e6F / static_cast<float>(layout.shape.c));
  const BatchStatistics statistics = found(maps);
  const double count = static_cast<double>(layout.shape.n) * layout.shape.h * layout.shape.w;
  for (int c = 0; c < layout.shape.c; ++c) {
    double sum = 0.0;
    layout.for_each_of(c, [&](std::size_t i) { sum += static_cast<double>(maps[i]); });
    const double mean = sum / count;
    double squares = 0.0;
    layout.for_each_of(c, [&](std::size_t i) { squares += std::pow(static_cast<double>(maps[i]) - mean, 2.0); });
    EXPECT_NEAR(statistics.mean()[c], mean, 1e-13 * (1.0 + std::abs(mean))) << "channel " << c;
    EXPECT_NEAR(statistics.variance()[c], squares / count, 1e-11 * squares / count) << "channel " << c;
  }
}

TEST_P(Statistics, DoNotDependOnTheNumberOfThreads) {
  const std::vector<float> maps = maps_of(1.0F);
  std::vector<std::vector<double>> all;
  const int before = omp_get_max_threads();
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    const BatchStatistics statistics = found(maps);
    all.push_back(statistics.mean());
    all.push_back(statistics.variance());
  }
  omp_set_num_threads(before);
  EXPECT_EQ(all[0], all[2]);
  EXPECT_EQ(all[0], all[4]);
  EXPECT_EQ(all[1], all[3]);
  EXPECT_EQ(all[1], all[5]);
}

/// Blocks of 4, 8 and 16 channels are summed with vectors of different lengths. The order of the additions is the same.
TEST(VectorsOfStatistics, GiveTheSameBitsWithAnyLength) {
  const Shape shape{2, 32, 9, 7};
  const auto found = [&shape](int lanes) {
    const Layout layout{"", shape, lanes};
    Random random(5, 6);
    std::vector<float> maps(layout.size());
    const auto draw = [&](std::size_t i) { maps[i] = random.uniform(-1.0F, 1.0F); };
    for (int c = 0; c < shape.c; ++c) layout.for_each_of(c, draw);
    BatchStatistics statistics(shape, layout.maps());
    statistics.find(maps.data());
    return std::pair(statistics.mean(), statistics.variance());
  };
  EXPECT_EQ(found(8), found(4));
  EXPECT_EQ(found(16), found(4));
}

TEST_P(Statistics, OfAChannelWithNanAreNan) {
  const Layout& layout = GetParam();
  std::vector<float> maps = maps_of(1.0F);
  const int ill = layout.shape.c - 1;
  maps[layout.at(layout.shape.n - 1, ill, layout.shape.h * layout.shape.w - 1)] =
      std::numeric_limits<float>::quiet_NaN();
  const BatchStatistics statistics = found(maps);
  for (int c = 0; c < layout.shape.c; ++c) {
    EXPECT_EQ(std::isnan(statistics.mean()[c]), c == ill) << "channel " << c;
    EXPECT_EQ(std::isnan(statistics.variance()[c]), c == ill) << "channel " << c;
  }
}

TEST_P(Statistics, OfEqualValuesHaveNoVariance) {
  const BatchStatistics statistics = found(std::vector<float>(GetParam().size(), 12345.678F));
  for (int c = 0; c < GetParam().shape.c; ++c) {
    EXPECT_EQ(statistics.mean()[c], static_cast<double>(12345.678F));
    EXPECT_EQ(statistics.variance()[c], 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Statistics,
                         testing::Values(Layout{"ChannelsLast", {5, 39, 7, 9}, 39},
                                         Layout{"ChannelsLastInManyRuns", {9, 64, 20, 20}, 64},
                                         Layout{"Blocks16", {7, 40, 6, 5}, 16}, Layout{"Blocks8", {70, 10, 3, 5}, 8},
                                         Layout{"Blocks4", {3, 7, 5, 5}, 4}, Layout{"OneBlock", {6, 16, 30, 30}, 16},
                                         Layout{"Plain", {3, 6, 7, 9}, 1}, Layout{"OneChannel", {3, 1, 5, 5}, 1},
                                         Layout{"OnePixel", {4, 20, 1, 1}, 20}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
