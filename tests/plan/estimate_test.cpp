// Tests the formulas that estimate data-parallel training, with the figures of their source.
#include "plan/estimate.hpp"

#include <gtest/gtest.h>

#include <array>

#include "core/error.hpp"

namespace convoy::estimate {
namespace {

/// Speedups over one worker, to four decimals: for each scheme the best and the worst of a central server, and a
/// distributed server. They were computed from the source's formulas in exact fractions, by another program.
struct Row {
  const char* net;
  double gradient;  ///< seconds, as Slampa (2017) measured it on a GTX 970
  double transfer;  ///< seconds, over 1 Gbit/s
  int workers;
  std::array<double, 9> speedups;
};

// clang-format off
constexpr Row kRows[] = {
    {"VGG16E", 0.719, 5.153, 1, {0.0652, 0.0652, 1.0000, 0.0652, 0.0652, 1.0000, 0.0652, 0.0652, 1.0000}},
    {"VGG16E", 0.719, 5.153, 2, {0.0889, 0.0674, 0.2449, 0.0455, 0.0343, 0.1304, 0.1295, 0.0674, 0.2449}},
    {"VGG16E", 0.719, 5.153, 3, {0.1011, 0.0682, 0.2842, 0.0345, 0.0231, 0.1011, 0.1383, 0.0682, 0.2842}},
    {"VGG16E", 0.719, 5.153, 4, {0.1086, 0.0686, 0.3404, 0.0277, 0.0174, 0.0909, 0.1383, 0.0686, 0.3404}},
    {"VGG16E", 0.719, 5.153, 5, {0.1136, 0.0688, 0.4011, 0.0231, 0.0139, 0.0857, 0.1383, 0.0688, 0.4011}},
    {"VGG16E", 0.719, 5.153, 6, {0.1173, 0.0690, 0.4635, 0.0199, 0.0116, 0.0826, 0.1383, 0.0690, 0.4635}},
    {"VGG16E", 0.719, 5.153, 7, {0.1200, 0.0691, 0.5269, 0.0174, 0.0100, 0.0805, 0.1383, 0.0691, 0.5269}},
    {"VGG16E", 0.719, 5.153, 8, {0.1221, 0.0692, 0.5908, 0.0155, 0.0087, 0.0789, 0.1383, 0.0692, 0.5908}},
    {"GoogLeNet", 0.763, 0.21, 1, {0.6450, 0.6450, 1.0000, 0.6450, 0.6450, 1.0000, 0.6450, 0.6450, 1.0000}},
    {"GoogLeNet", 0.763, 0.21, 2, {1.0955, 0.9520, 1.5683, 0.7543, 0.6246, 1.2899, 1.2864, 0.9520, 1.5683}},
    {"GoogLeNet", 0.763, 0.21, 3, {1.4279, 1.1315, 2.1946, 0.6972, 0.5039, 1.4279, 1.9189, 1.1315, 2.1946}},
    {"GoogLeNet", 0.763, 0.21, 4, {1.6834, 1.2493, 2.8312, 0.6150, 0.4079, 1.5087, 2.5377, 1.2493, 2.8312}},
    {"GoogLeNet", 0.763, 0.21, 5, {1.8858, 1.3325, 3.4713, 0.5401, 0.3387, 1.5616, 3.1378, 1.3325, 3.4713}},
    {"GoogLeNet", 0.763, 0.21, 6, {2.0502, 1.3945, 4.1132, 0.4777, 0.2882, 1.5990, 3.5064, 1.3945, 4.1132}},
    {"GoogLeNet", 0.763, 0.21, 7, {2.1862, 1.4423, 4.7560, 0.4265, 0.2502, 1.6269, 3.5064, 1.4423, 4.7560}},
    {"GoogLeNet", 0.763, 0.21, 8, {2.3008, 1.4805, 5.3994, 0.3843, 0.2208, 1.6484, 3.5064, 1.4805, 5.3994}},
    {"SqueezeNet", 0.758, 0.033, 1, {0.9199, 0.9199, 1.0000, 0.9199, 0.9199, 1.0000, 0.9199, 0.9199, 1.0000}},
    {"SqueezeNet", 0.758, 0.033, 2, {1.7690, 1.7034, 1.9166, 1.5858, 1.4834, 1.8398, 1.8387, 1.7034, 1.9166}},
    {"SqueezeNet", 0.758, 0.033, 3, {2.5551, 2.3787, 2.8354, 1.9705, 1.6820, 2.5551, 2.7545, 2.3787, 2.8354}},
    {"SqueezeNet", 0.758, 0.033, 4, {3.2849, 2.9667, 3.7548, 2.1382, 1.6714, 3.1715, 3.6658, 2.9667, 3.7548}},
    {"SqueezeNet", 0.758, 0.033, 5, {3.9644, 3.4835, 4.6744, 2.1682, 1.5739, 3.7084, 4.5709, 3.4835, 4.6744}},
    {"SqueezeNet", 0.758, 0.033, 6, {4.5986, 3.9411, 5.5941, 2.1213, 1.4512, 4.1801, 5.4681, 3.9411, 5.5941}},
    {"SqueezeNet", 0.758, 0.033, 7, {5.1918, 4.3492, 6.5139, 2.0361, 1.3292, 4.5979, 6.3558, 4.3492, 6.5139}},
    {"SqueezeNet", 0.758, 0.033, 8, {5.7479, 4.7154, 7.4337, 1.9349, 1.2172, 4.9705, 7.2325, 4.7154, 7.4337}},
    {"ResNet-34", 0.821, 0.811, 1, {0.3361, 0.3361, 1.0000, 0.3361, 0.3361, 1.0000, 0.3361, 0.3361, 1.0000}},
    {"ResNet-34", 0.821, 0.811, 2, {0.5046, 0.4039, 1.0061, 0.2887, 0.2247, 0.6721, 0.6687, 0.4039, 1.0061}},
    {"ResNet-34", 0.821, 0.811, 3, {0.6059, 0.4331, 1.2947, 0.2334, 0.1597, 0.6059, 0.9927, 0.4331, 1.2947}},
    {"ResNet-34", 0.821, 0.811, 4, {0.6735, 0.4493, 1.6118, 0.1927, 0.1227, 0.5775, 0.9967, 0.4493, 1.6118}},
    {"ResNet-34", 0.821, 0.811, 5, {0.7218, 0.4596, 1.9376, 0.1632, 0.0992, 0.5616, 0.9967, 0.4596, 1.9376}},
    {"ResNet-34", 0.821, 0.811, 6, {0.7581, 0.4668, 2.2673, 0.1412, 0.0832, 0.5516, 0.9967, 0.4668, 2.2673}},
    {"ResNet-34", 0.821, 0.811, 7, {0.7863, 0.4720, 2.5989, 0.1243, 0.0716, 0.5446, 0.9967, 0.4720, 2.5989}},
    {"ResNet-34", 0.821, 0.811, 8, {0.8089, 0.4760, 2.9318, 0.1109, 0.0628, 0.5395, 0.9967, 0.4760, 2.9318}},
};
// clang-format on

constexpr int kBatches = 128;

Bounds bounds_of(const Row& row, Scheme scheme, Server server) {
  return seconds_by_formula({scheme, server, row.gradient, row.transfer, row.workers, kBatches});
}

double speedup(const Row& row, double seconds) { return kBatches * row.gradient / seconds; }

TEST(Estimate, GivesAllCellsOfItsSource) {
  constexpr double kLastDigit = 0.5e-4 + 1e-9;
  for (const Row& row : kRows) {
    for (std::size_t s = 0; s < kSchemes.size(); ++s) {
      const Bounds central = bounds_of(row, kSchemes[s], Server::central);
      const Bounds distributed = bounds_of(row, kSchemes[s], Server::distributed);
      const std::string cell = to_string(kSchemes[s]) + " " + row.net + " " + std::to_string(row.workers);
      EXPECT_NEAR(speedup(row, central.best), row.speedups[3 * s], kLastDigit) << cell;
      EXPECT_NEAR(speedup(row, central.worst), row.speedups[3 * s + 1], kLastDigit) << cell;
      EXPECT_NEAR(speedup(row, distributed.best), row.speedups[3 * s + 2], kLastDigit) << cell;
      EXPECT_EQ(distributed.best, distributed.worst) << cell;
      EXPECT_DOUBLE_EQ(central.mean(), 0.5 * (central.best + central.worst)) << cell;
    }
  }
}

TEST(Estimate, SplitOnACentralServerIsFastestWithFourWorkersForSqueezeNet) {
  int fastest = 0;
  double least = 1e9;
  for (int workers = 1; workers <= 8; ++workers) {
    const double seconds = seconds_by_formula({Scheme::split, Server::central, 0.758, 0.033, workers, kBatches}).mean();
    if (seconds < least) {
      least = seconds;
      fastest = workers;
    }
  }
  EXPECT_EQ(fastest, 4);
}

TEST(Estimate, NamesSchemesAndServers) {
  for (const Scheme scheme : kSchemes) EXPECT_EQ(scheme_from(to_string(scheme)), scheme);
  for (const Server server : {Server::central, Server::distributed}) EXPECT_EQ(server_from(to_string(server)), server);
  EXPECT_THROW(scheme_from("join"), Error);
  EXPECT_THROW(server_from(""), Error);
}

}  // namespace
}  // namespace convoy::estimate
