// Trains on the images of every kind of data set, on a slave and on one machine. They travel as pixels, so that the
// weights must be the same to the bit.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "core/random.hpp"
#include "data/batches.hpp"
#include "master/cluster/cluster_trunk.hpp"
#include "tests/support/slave_threads.hpp"
#include "tests/support/source_folder.hpp"
#include "tests/support/states.hpp"
#include "train/local_trunk.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

constexpr int kBatch = 8;
constexpr int kSteps = 5;
constexpr std::uint64_t kSeed = 5;

struct DataCase {
  std::string name;
  std::function<DataSet()> open;  ///< a set without images where they are not here
  Augmentation augment = {};
};

void PrintTo(const DataCase& c, std::ostream* out) { *out << c.name; }

DataSet opened(const std::string& name, const FeatureShape& input = {}) {
  const std::string folder = real_data(name);
  return folder.empty() ? DataSet{} : open_data(folder, kSeed, input);
}

/// Images of five channels of noise, each brighter than the one before.
DataSet five_channels() {
  DataSet data{.name = "noise", .classes = 10, .training = {.shape = {5, 9, 7}}};
  Random random(kSeed, 1);
  for (int i = 0; i < 64; ++i) {
    data.training.labels.push_back(static_cast<std::uint16_t>(random.below(10)));
    for (std::uint32_t c = 0; c < 5; ++c) {
      for (int p = 0; p < 9 * 7; ++p) {
        data.training.pixels.push_back(static_cast<std::uint8_t>(40 * c + random.below(90)));
      }
    }
  }
  return data;
}

Cut net_for(const FeatureShape& input, int classes) {
  Cut cut;
  cut.trunk = {{.name = "conv1",
                .channels = input.channels,
                .height = input.height,
                .width = input.width,
                .conv = {.filters = 6, .kernel_h = 3, .kernel_w = 3, .pad = {1, 1, 1, 1}},
                .after = {Activation::relu}}};
  cut.heads = {
      {.maps = {6, input.height, input.width},
       .layers = {{.name = "dense1", .spec = Dense{classes}}, {.name = "loss", .spec = SoftmaxCrossEntropy{}}}}};
  return cut;
}

std::vector<ShardState> train_some(Trunk& trunk, const Cut& cut, const Batches& batches, int epoch = 0) {
  NetLearner learner(trunk, cut, kBatch, 1);
  learner.load({std::make_shared<const ModelState>(ModelState{initial_trunk(cut, kSeed), initial_heads(cut, kSeed)})});
  Images images = batches.blank();
  std::vector<int> labels;
  for (int step = 0; step < kSteps; ++step) {
    batches.fill(epoch, step, images, labels);
    train_step(learner, images, labels, {.training = true, .seed = 1, .step = step + 1},
               [](double) { return UpdateStep{.learning_rate = 0.01F, .momentum = 0.9F}; });
  }
  return trunk.snapshot();
}

/// One machine and one slave that train on the images of the case.
class ImagesOnTheWire : public testing::TestWithParam<DataCase> {
 protected:
  void SetUp() override {
    data_ = GetParam().open();
    if (data_.training.count() == 0) GTEST_SKIP() << "the images are not here; set CONVOY_TEST_DATA";
    cut_ = net_for(data_.training.shape, data_.classes);
    plan_ = proportional_plan(cut_.trunk, kBatch, {"a"}, {1.0});
    batches_.emplace(data_, Part::training, kBatch, kSeed, GetParam().augment);
    slave_.emplace(lobby_.endpoint(), 1, std::vector<std::string>{"eigen"});
    crew_.gather(1, stop_, [] {});
  }

  void TearDown() override { crew_.dismiss("the test finished"); }

  /// The bytes of the gradients that the slave receives in each step.
  double gradients() const {
    return sizeof(float) * static_cast<double>(output_shape(cut_.trunk[0], kBatch, 6).size());
  }

  DataSet data_;
  Cut cut_;
  Plan plan_;
  std::optional<Batches> batches_;
  const std::unique_ptr<Device> device_ = make_device("eigen", {.threads = 1});
  Lobby lobby_{"tcp://127.0.0.1:*", "test"};
  Crew crew_{lobby_};
  std::optional<SlaveThreads> slave_;
  const std::atomic<bool> stop_{false};
};

TEST_P(ImagesOnTheWire, GiveTheBitsOfOneMachine) {
  LocalTrunk local(cut_.trunk, batches_->image_shape(), *device_);
  const std::vector<ShardState> expected = train_some(local, cut_, *batches_);
  ClusterTrunk trunk(cut_.trunk, plan_, crew_, nullptr, 20s);
  const std::vector<ShardState> states = train_some(trunk, cut_, *batches_);
  EXPECT_TRUE(same_bits(states[0], expected[0]));
  const auto pixels = static_cast<double>(batches_->image_shape().size());
  EXPECT_EQ(trunk.take_times()[0].received, kSteps * (pixels + gradients())) << "pixels, and gradients in fp32";
}

/// The originals of some steps.
std::set<std::string> originals_in(const Batches& batches, int epoch) {
  std::set<std::string> found;
  Images images = batches.blank();
  std::vector<int> labels;
  for (int step = 0; step < kSteps; ++step) {
    batches.fill(epoch, step, images, labels);
    for (int i = 0; i < static_cast<int>(images.originals.size()); ++i) {
      const auto kept = images.originals[i].pixels;
      found.insert(to_text(wire::content_of(kept.empty() ? images.pixels.sample(i) : kept)));
    }
  }
  return found;
}

TEST_P(ImagesOnTheWire, TravelOnceWhereSlavesKeepThem) {
  LocalTrunk local(cut_.trunk, batches_->image_shape(), *device_);
  const std::vector<ShardState> first = train_some(local, cut_, *batches_);
  const std::vector<ShardState> second = train_some(local, cut_, *batches_, 1);
  const auto size = static_cast<double>(data_.training.shape.size());
  const double needed = kSteps * kBatch * size;
  const auto train = [&](ImageBytes& bytes, int epoch) {
    ClusterTrunk trunk(cut_.trunk, plan_, crew_, nullptr, 20s);
    trunk.offer_images(bytes);
    std::vector<ShardState> states = train_some(trunk, cut_, *batches_, epoch);
    EXPECT_EQ(trunk.take_times()[0].received, bytes.sent + kSteps * gradients()) << "images, and gradients in fp32";
    return states;
  };
  ImageBytes once;
  EXPECT_TRUE(same_bits(train(once, 0)[0], first[0]));
  ImageBytes next;
  EXPECT_TRUE(same_bits(train(next, 1)[0], second[0]));
  set_micro_batches(plan_, 2);  // each step has two sends of images
  ImageBytes again;
  train(again, 0);
  if (originals_in(*batches_, 0).empty()) {
    EXPECT_EQ(once.sent, needed);
    EXPECT_EQ(again.sent, needed) << "images that are new in each epoch are not kept";
    EXPECT_EQ(again.kept, 0.0);
  } else {
    std::set<std::string> all = originals_in(*batches_, 0);
    EXPECT_EQ(once.sent, size * static_cast<double>(all.size()));
    EXPECT_EQ(once.sent + once.kept, needed);
    EXPECT_EQ(again.sent, 0.0);
    EXPECT_EQ(again.kept, needed);
    const auto known = static_cast<double>(all.size());
    all.merge(originals_in(*batches_, 1));
    EXPECT_EQ(next.sent, size * (static_cast<double>(all.size()) - known));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Data, ImagesOnTheWire,
    testing::Values(DataCase{"Glyphs", [] { return draw_glyphs(kSeed, 64, 8); }},
                    DataCase{"FiveChannels", five_channels},
                    DataCase{"MirroredAndShifted", five_channels, {.flip = true, .crop = 2}},
                    DataCase{"Mnist", [] { return opened("mnist"); }},
                    DataCase{"Cifar10", [] { return opened("cifar-10-batches-bin"); }, {.flip = true, .crop = 4}},
                    DataCase{"Photographs",
                             [] {
                               return opened("photos", {3, 40, 36});
                             },
                             {.flip = true, .crop = 1}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace convoy
