// Teachers: what they say of images that are remembered and of others, and learners that learn from it.

#include "train/teacher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/ensemble_scores.hpp"
#include "tests/train/replica_nets.hpp"
#include "train/replica_learner.hpp"

namespace convoy {
namespace {

constexpr int kImages = 14;

/// Images of which each pixel is the number of the image, times ten.
DataSet numbered_images() {
  DataSet data{.name = "numbered", .classes = 2};
  for (ImageSet* set : {&data.training, &data.test}) {
    set->shape = {1, 2, 2};
    for (int i = 0; i < kImages; ++i) {
      set->labels.push_back(static_cast<std::uint16_t>(i % 2));
      set->pixels.insert(set->pixels.end(), 4, static_cast<std::uint8_t>(10 * i));
    }
  }
  return data;
}

/// A net whose outputs are its first normalised pixel, times a factor, and 0.
class PixelNet : public Learner {
 public:
  explicit PixelNet(float factor) : factor_(factor) {}
  const Tensor& outputs(const Images& images) override {
    ++calls_;
    outputs_ = Tensor(Shape{images.shape().n, 2}, 0.0F);
    Tensor values(images.shape());
    Normaliser normaliser;
    normaliser.use(images.scales);
    normaliser.normalise(images.pixels, {0, images.shape().n}, values);
    for (int n = 0; n < images.shape().n; ++n) outputs_.at(n, 0) = factor_ * values.sample(n)[0];
    return outputs_;
  }
  int calls() const { return calls_; }

  BatchLoss accumulate(const Images&, const Labels&, const Pass&) override { return {}; }
  double gradient_squares() override { return 0.0; }
  void apply(const UpdateStep&, const Progress&) override {}
  void settle() override {}
  std::optional<Broken> broken() const override { return std::nullopt; }
  BatchLoss test_loss(const Labels&, int) override { return {}; }
  std::shared_ptr<const ModelState> state() override { return nullptr; }
  void load(TrainingState) override {}
  std::vector<MemberTime> take_times() override { return {}; }

 private:
  float factor_;
  Tensor outputs_;
  int calls_ = 0;
};

class OfTeachers : public testing::Test {
 protected:
  /// Two nets, of which the second was trained with other scales.
  Teacher teacher() {
    return Teacher({{"a", &first_, {{0.0, 0.25}}}, {"b", &second_, {{0.5, 0.5}}}}, {{"a", "b"}, 2.0, 0.7}, 2);
  }
  /// What both say of an image.
  static std::vector<double> expected(int image) {
    const double pixel = 10.0 * image / 255.0;
    const auto soft = [](double output) { return 1.0 / (1.0 + std::exp(-output / 2.0)); };
    const double mean = (soft(3.0 * pixel / 0.25) + soft(-(pixel - 0.5) / 0.5)) / 2.0;
    return {mean, 1.0 - mean};
  }
  void expect_labels(const Labels& labels, const std::vector<int>& images) const {
    ASSERT_EQ(labels.soft.shape(), (Shape{static_cast<int>(images.size()), 2}));
    EXPECT_EQ(labels.temperature, 2.0);
    EXPECT_EQ(labels.mix, 0.7);
    for (std::size_t n = 0; n < images.size(); ++n) {
      for (int c = 0; c < 2; ++c) {
        EXPECT_NEAR(labels.soft.at(static_cast<int>(n), c), expected(images[n])[c], 1e-6);
      }
    }
  }

  DataSet data_ = numbered_images();
  Batches training_{data_, Part::training, 4, 9, {}, {{0.0, 1.0}}};
  PixelNet first_{3.0F};
  PixelNet second_{-1.0F};
};

TEST_F(OfTeachers, GivesTheMeanOfItsNetsForTheImagesOfABatch) {
  Teacher teacher = this->teacher();
  Images images = training_.blank();
  Labels labels;
  for (const int index : {0, 2}) {
    training_.fill(1, index, images, labels.classes);
    teacher.teach(training_, 1, index, images, labels);
    expect_labels(labels, training_.numbers(1, index));
  }
}

TEST_F(OfTeachers, RemembersImagesInWhateverBatchTheyCome) {
  Teacher teacher = this->teacher();
  std::vector<float> probabilities;
  for (int image = 0; image < kImages; ++image) {
    for (const double each : expected(image)) probabilities.push_back(static_cast<float>(each));
  }
  teacher.remember(std::move(probabilities));
  Images images = training_.blank();
  Labels labels;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int index = 0; index < training_.count(); ++index) {
      training_.fill(epoch, index, images, labels.classes);
      teacher.teach(training_, epoch, index, images, labels);
      expect_labels(labels, training_.numbers(epoch, index));
    }
  }
  EXPECT_EQ(first_.calls(), 0);
}

TEST_F(OfTeachers, RefusesOutputsThatAreNotFinite) {
  PixelNet broken(NAN);
  Teacher teacher({{"runs/broken", &broken, {{0.0, 1.0}}}}, {{"runs/broken"}}, 2);
  Images images = training_.blank();
  Labels labels;
  training_.fill(0, 0, images, labels.classes);
  try {
    teacher.teach(training_, 0, 0, images, labels);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("training.teacher runs/broken: its outputs"));
  }
}

// ---- learners ------------------------------------------------------------------------------------------------------

/// The labels of a step with probabilities that are drawn.
Labels drawn_labels(const LabelledImages& at, int step) {
  Labels labels(at.labels);
  labels.temperature = 3.0;
  labels.mix = 0.8;
  labels.soft = Tensor(Shape{static_cast<int>(at.labels.size()), kClasses});
  Random random(kSeed, 300 + static_cast<std::uint64_t>(step));
  std::vector<float> outputs(kClasses);
  for (int n = 0; n < labels.soft.shape().n; ++n) {
    for (float& each : outputs) each = random.uniform(-3.0F, 3.0F);
    std::ranges::copy(softmax_of(outputs, labels.temperature), labels.soft.sample(n).begin());
  }
  return labels;
}

double learn(Learner& learner, const NetCase& c, const Cut& cut, int count) {
  double loss = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    const LabelledImages at = images_of(cut, step, count);
    const Pass pass{.training = true, .seed = 7, .step = step + 1};
    loss += train_step(learner, at.images, drawn_labels(at, step), pass, [&](double norm) {
              return update_step(c.training, c.training.learning_rate, step + 1, norm);
            }).sum;
  }
  return loss;
}

/// Each replica gets the probabilities of its own images.
TEST(TaughtLearners, JoinedReplicasLearnAsOneMachineDoes) {
  const NetCase& c = kPlainNets[0];
  const Cut cut = net_of(c);
  constexpr int kParts = 3;
  OneMachine whole(cut, kParts * kBatch);
  const Cut bare = without_moments(cut);
  const std::unique_ptr<Device> device = make_device("eigen", {.threads = 1});
  LocalTrunk trunk(bare.trunk, input_shape(bare.trunk[0], kBatch), *device);
  std::vector<std::unique_ptr<Replica>> replicas;
  replicas.push_back(std::make_unique<Replica>(trunk, bare, kBatch, 1));
  JoinLearner joined(std::move(replicas), cut, kBatch, kParts, 0, 1);
  joined.load(initial(cut));
  const double tolerance = 64.0 * kSteps * std::sqrt(9.0 * 7.0 * 2.0 * kBatch) * 0x1.0p-24;
  const double expected = learn(whole.learner, c, cut, kParts * kBatch);
  EXPECT_NEAR(learn(joined, c, cut, kParts * kBatch), expected, tolerance * kSteps * kParts * kBatch);
  const auto got = joined.state();
  const auto wanted = whole.learner.state();
  for (std::size_t s = 0; s < cut.trunk.size(); ++s) expect_near(got->trunk[s], wanted->trunk[s], tolerance);
  // Without the teacher the net becomes another.
  OneMachine alone(cut, kParts * kBatch);
  EXPECT_GT(std::abs(train_some(alone.learner, c, cut, kParts * kBatch) - expected), 1.0);
}

}  // namespace
}  // namespace convoy
