// A frozen trunk that keeps maps gives the same training as one that computes them in each step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "devices/registry.hpp"
#include "model/heads.hpp"
#include "train/cached_trunk.hpp"
#include "train/learner.hpp"
#include "train/local_trunk.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

constexpr int kOfCachedBatch = 4;
constexpr int kCachedImages = 12;
constexpr std::size_t kMuch = std::size_t{1} << 20;

Cut net_with(const std::string& layers) {
  return cut(
      parse_net("name: t\ninput: {channels: 3, height: 9, width: 8}\nlayers:\n"
                "  - {name: conv1, type: conv, filters: 16, kernel: 3, freeze: true}\n"
                "  - {name: bn1, type: batch_norm, freeze: true}\n"
                "  - {name: relu1, type: relu}\n" +
                    layers +
                    "  - {name: out, type: dense, units: 3}\n"
                    "  - {name: loss, type: softmax_cross_entropy}\n",
                "t.yaml"));
}

/// Counts the forward passes of a local trunk.
class CountingTrunk : public LocalTrunk {
 public:
  CountingTrunk(const Cut& cut, Device& device, int& passes)
      : LocalTrunk(cut.trunk, input_shape(cut.trunk[0], kOfCachedBatch), device), passes_(passes) {}
  void begin(const Images& images, const Pass& pass) override {
    ++passes_;
    LocalTrunk::begin(images, pass);
  }

 private:
  int& passes_;
};

/// Batches of images of which each epoch has another order.
Images cached_batch(int epoch, int number) {
  const Images all = noise_images({kCachedImages, 3, 9, 8}, 5, 1);
  Images images{Pixels({kOfCachedBatch, 3, 9, 8}), all.scales};
  for (int n = 0; n < kOfCachedBatch; ++n) {
    const int which = (number * kOfCachedBatch + n) * (epoch % 2 == 0 ? 5 : 7) % kCachedImages;
    std::ranges::copy(all.pixels.samples(which, 1), images.pixels.samples(n, 1).begin());
  }
  return images;
}

struct TrainedHead {
  std::vector<double> losses;
  std::vector<float> weights;  ///< of the dense layer
};

TrainedHead trained_head(Trunk& trunk, const Cut& cut, int epochs) {
  NetLearner learner(trunk, cut, kOfCachedBatch);
  learner.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut, 3), initial_heads(cut, 3)}), {}});
  TrainedHead result;
  long step = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int number = 0; number < kCachedImages / kOfCachedBatch; ++number) {
      const Pass pass{.training = true, .seed = 1, .step = ++step};
      result.losses.push_back(learner.accumulate(cached_batch(epoch, number), {0, 1, 2, 1}, pass).sum);
      learner.apply({.learning_rate = 0.1F});
    }
    learner.outputs(cached_batch(epoch, 0));
    result.losses.push_back(learner.test_loss({0, 1, 2, 1}, kOfCachedBatch).sum);
  }
  const auto state = learner.state();
  const auto values = state->head.at(0).weights.value.span();
  result.weights.assign(values.begin(), values.end());
  return result;
}

class CachedTrunks : public testing::TestWithParam<const char*> {};

TEST_P(CachedTrunks, TrainToTheSameBitsAndComputeEachImageOnce) {
  const Cut net = net_with("");
  const auto device = make_device(GetParam(), {.threads = 2});
  int plain = 0;
  CountingTrunk alone(net, *device, plain);
  const TrainedHead expected = trained_head(alone, net, 3);
  EXPECT_EQ(plain, 3 * 4);
  int passes = 0;
  KeptMaps kept(kMuch);
  CachedTrunk cached(std::make_unique<CountingTrunk>(net, *device, passes), net.heads[0].maps, kept);
  const TrainedHead got = trained_head(cached, net, 3);
  EXPECT_EQ(passes, 3) << "each of three batches of the first epoch";
  EXPECT_EQ(got.losses, expected.losses);
  EXPECT_EQ(got.weights, expected.weights);
}

INSTANTIATE_TEST_SUITE_P(Devices, CachedTrunks, testing::Values("reference", "cpu", "eigen"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CachedTrunk, KeepsWhatFits) {
  const Cut net = net_with("");
  const auto device = make_device("reference", {});
  const std::size_t maps = static_cast<std::size_t>(16 * 7 * 6) * sizeof(float);
  for (const auto& [bytes, expected] : {std::pair<std::size_t, int>{0, 12}, {(maps + 128) * 6, 8}, {maps * 13, 3}}) {
    int passes = 0;
    KeptMaps kept(bytes);
    CachedTrunk cached(std::make_unique<CountingTrunk>(net, *device, passes), net.heads[0].maps, kept);
    trained_head(cached, net, 3);
    EXPECT_EQ(passes, expected) << bytes;
  }
}

TEST(CachedTrunk, ForgetsMapsOfOtherWeightsAndScales) {
  const Cut net = net_with("");
  const auto device = make_device("reference", {});
  int passes = 0;
  KeptMaps kept(kMuch);
  CachedTrunk cached(std::make_unique<CountingTrunk>(net, *device, passes), net.heads[0].maps, kept);
  cached.load(initial_trunk(net, 3));
  Images images = cached_batch(0, 0);
  const Tensor first = cached.forward(images, {});
  EXPECT_EQ(cached.forward(images, {}).at(0, 0), first.at(0, 0));
  EXPECT_EQ(passes, 1);
  cached.load(initial_trunk(net, 4));
  EXPECT_NE(cached.forward(images, {}).at(0, 0), first.at(0, 0));
  EXPECT_EQ(passes, 2);
  for (ChannelScale& scale : images.scales) scale.deviation *= 2.0;
  cached.forward(images, {});
  EXPECT_EQ(passes, 3);
  images.pixels.samples(3, 1)[5] ^= 1;
  cached.forward(images, {});
  EXPECT_EQ(passes, 4);
  cached.forward(images, {});
  EXPECT_EQ(passes, 4);
}

TEST(CachedTrunk, GivesTheNextTrunkWithTheSameWeightsItsMaps) {
  const Cut net = net_with("");
  const auto device = make_device("reference", {});
  const Images images = cached_batch(0, 0);
  KeptMaps kept(kMuch);
  int passes = 0;
  const auto next = [&] {
    return CachedTrunk(std::make_unique<CountingTrunk>(net, *device, passes), net.heads[0].maps, kept);
  };
  CachedTrunk first = next();
  first.load(initial_trunk(net, 3));
  const Tensor maps = first.forward(images, {});
  CachedTrunk same = next();
  same.load(initial_trunk(net, 3));
  EXPECT_TRUE(std::ranges::equal(same.forward(images, {}).span(), maps.span()));
  EXPECT_EQ(passes, 1);
  CachedTrunk other = next();
  other.load(initial_trunk(net, 4));
  EXPECT_FALSE(std::ranges::equal(other.forward(images, {}).span(), maps.span()));
  EXPECT_EQ(passes, 2);
}

TEST(CachedTrunk, HasObstacles) {
  EXPECT_EQ(CachedTrunk::obstacle(net_with("").trunk), "");
  EXPECT_THAT(CachedTrunk::obstacle(net_with("  - {name: conv2, type: conv, filters: 4, kernel: 3}\n").trunk),
              HasSubstr("layer conv2 is not frozen"));
  EXPECT_THAT(CachedTrunk::obstacle(net_with("  - {name: bn2, type: batch_norm}\n").trunk),
              HasSubstr("layer bn2 is not frozen"));
  EXPECT_THAT(CachedTrunk::obstacle(net_with("  - {name: d, type: dropout, rate: 0.5}\n").trunk),
              HasSubstr("a dropout behind layer conv1"));
  EXPECT_THAT(CachedTrunk::obstacle(net_with("  - {name: side, from: relu1, type: dense, units: 3}\n"
                                             "  - {name: l, type: squared_error}\n"
                                             "  - {name: f, from: relu1, type: flatten}\n")
                                        .trunk),
              HasSubstr("several losses"));
  EXPECT_THAT(CachedTrunk::obstacle({}), HasSubstr("no convolution"));
}

}  // namespace
}  // namespace convoy
