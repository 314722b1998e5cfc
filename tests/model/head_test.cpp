// Checks the gradients of all layers of a head in double precision, and the values of its losses.

#include "model/heads.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.hpp"
#include "tests/support/central_difference.hpp"

namespace convoy {
namespace {

CutHead make_cut(FeatureShape maps, std::vector<LayerSpec> specs) {
  CutHead cut{.maps = maps, .layers = {}};
  int number = 0;
  for (LayerSpec& spec : specs) cut.layers.push_back({.name = fmt::format("layer{}", ++number), .spec = spec});
  return cut;
}

template <class T>
void fill(BasicTensor<T>& tensor, Random& random) {
  for (T& value : tensor.span()) value = static_cast<T>(random.uniform(-1.0F, 1.0F));
}

struct HeadCase {
  std::string name;
  FeatureShape maps;
  std::vector<LayerSpec> layers;
  double share = 1.0;  ///< below 1: images are mixed
};

void PrintTo(const HeadCase& c, std::ostream* out) { *out << c.name; }

class HeadGradients : public testing::TestWithParam<HeadCase> {
 protected:
  static constexpr int kBatch = 4;
  static constexpr int kCounted = 3;  // the last of 4 samples is padding and must not count

  HeadGradients() : head_(make_cut(GetParam().maps, GetParam().layers), 1, kBatch), maps_(maps_shape()) {
    Random random(7, 1);
    fill(maps_, random);
    for (std::size_t i = 0; i < head_.dense_layers(); ++i) {
      auto& state = head_.edit(i);
      fill(state.weights.value, random);
      fill(state.bias.value, random);
    }
    for (int n = 0; n < kBatch; ++n) labels_.classes.push_back(static_cast<int>(random.below(3)));
    labels_.share = GetParam().share;
    for (int n = 0; labels_.share < 1.0 && n < kBatch; ++n) labels_.others.push_back(static_cast<int>(random.below(3)));
  }

  static Shape maps_shape() {
    const FeatureShape& maps = GetParam().maps;
    return {kBatch, maps.channels, maps.height, maps.width};
  }

  double mean_loss() {
    head_.forward(maps_, pass_);
    return head_.loss(labels_, kCounted).sum / kCounted;
  }

  /// The central difference of the loss by one value.
  double slope(double& value) {
    return central_difference(value, [this] { return mean_loss(); });
  }

  void expect_slopes(BasicTensor<double>& values, const BasicTensor<double>& gradient, const char* what) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = slope(values.data()[i]);
      EXPECT_NEAR(gradient.data()[i], expected, 1e-7 + 1e-6 * std::abs(expected)) << what << " " << i;
    }
  }

  Head<double> head_;
  BasicTensor<double> maps_;
  Labels labels_;
  Pass pass_{.training = true, .seed = 99};
};

TEST_P(HeadGradients, MatchCentralDifferences) {
  mean_loss();
  const BasicTensor<double> by_maps = head_.backward();
  head_.backward_weights();
  std::vector<BasicTensor<double>> weights;
  std::vector<BasicTensor<double>> biases;
  for (std::size_t i = 0; i < head_.dense_layers(); ++i) {
    weights.push_back(head_.weight_gradient(i));
    biases.push_back(head_.bias_gradient(i));
  }
  expect_slopes(maps_, by_maps, "map");
  for (std::size_t i = 0; i < head_.dense_layers(); ++i) {
    expect_slopes(head_.edit(i).weights.value, weights[i], "weight");
    expect_slopes(head_.edit(i).bias.value, biases[i], "bias");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, HeadGradients,
    testing::Values(
        HeadCase{"DenseSoftmax", {2, 3, 2}, {Flatten{}, Dense{3}, SoftmaxCrossEntropy{}}},
        HeadCase{"DenseSquaredError", {5, 1, 1}, {Dense{3}, SquaredError{}}},
        HeadCase{"NoDense", {3, 1, 1}, {SoftmaxCrossEntropy{}}},
        HeadCase{"Relu", {4, 1, 1}, {Dense{6}, Activation::relu, Dense{3}, SoftmaxCrossEntropy{}}},
        HeadCase{"Smoothed", {4, 1, 1}, {Dense{3}, SoftmaxCrossEntropy{0.2F}}},
        HeadCase{"Weighted", {4, 1, 1}, {Dense{3}, SoftmaxCrossEntropy{.class_weights = {1, 3, 0.5}}}},
        HeadCase{"WeightedAndSmoothed",
                 {4, 1, 1},
                 {Dense{3}, SoftmaxCrossEntropy{.label_smoothing = 0.2F, .class_weights = {1, 3, 0.5}}}},
        HeadCase{"Mixed", {4, 1, 1}, {Dense{3}, SoftmaxCrossEntropy{}}, 0.7},
        HeadCase{"MixedSquaredError", {4, 1, 1}, {Dense{3}, SquaredError{}}, 0.3},
        HeadCase{"MixedAndWeighted",
                 {4, 1, 1},
                 {Dense{3}, SoftmaxCrossEntropy{.label_smoothing = 0.2F, .class_weights = {1, 3, 0.5}}},
                 0.6},
        HeadCase{"GeluByTanhAndMish",
                 {4, 1, 1},
                 {Dense{6}, Activation{Activation::Kind::gelu_tanh}, Dense{5}, Activation{Activation::Kind::mish},
                  Dense{3}, SoftmaxCrossEntropy{}}},
        HeadCase{"Celu", {4, 1, 1}, {Dense{6}, Activation{Activation::Kind::celu, 0.5F}, Dense{3}, SquaredError{}}},
        HeadCase{"Sigmoid", {4, 1, 1}, {Dense{5}, Activation::sigmoid, Dense{3}, SoftmaxCrossEntropy{}}},
        HeadCase{"Tanh", {4, 2, 1}, {Dense{5}, Activation::tanh, Dense{3}, SquaredError{}}},
        HeadCase{
            "Clip", {4, 1, 1}, {Dense{6}, Activation{Activation::Kind::clip, -0.5F, 1.0F}, Dense{3}, SquaredError{}}},
        HeadCase{"HardSigmoid",
                 {4, 1, 1},
                 {Dense{5}, Activation{Activation::Kind::hard_sigmoid, 0.25F, 0.5F}, SquaredError{}}},
        HeadCase{"Elus",
                 {4, 1, 1},
                 {Dense{6}, Activation{Activation::Kind::elu, 0.75F}, Dense{5}, Activation{Activation::Kind::selu},
                  Dense{3}, SoftmaxCrossEntropy{}}},
        HeadCase{"Softplus", {4, 1, 1}, {Activation{Activation::Kind::softplus}, Dense{3}, SquaredError{}}},
        HeadCase{"SiluFirst", {4, 1, 1}, {Activation{Activation::Kind::silu}, Dense{3}, SquaredError{}}},
        HeadCase{"HardSwishAndGelu",
                 {4, 1, 1},
                 {Dense{6}, Activation{Activation::Kind::hard_swish}, Dense{5}, Activation{Activation::Kind::gelu},
                  Dense{3}, SoftmaxCrossEntropy{}}},
        HeadCase{"Dropout", {6, 1, 1}, {Dense{8}, Dropout{0.4F, 3}, Dense{3}, SoftmaxCrossEntropy{}}}),
    [](const auto& info) { return info.param.name; });

TEST(Head, LossAndCorrectCount) {
  Head<double> head(make_cut({3, 1, 1}, {SoftmaxCrossEntropy{}}), 1, 2);
  BasicTensor<double> logits({2, 3});
  for (int c = 0; c < 3; ++c) {
    logits.at(0, c) = c;           // class 2 has the largest logit
    logits.at(1, c) = 1000.0 * c;  // exp of these logits would overflow
  }
  head.forward(logits, {});
  const auto loss = head.loss({2, 0}, 2);
  EXPECT_NEAR(loss.sum, std::log(std::exp(-2.0) + std::exp(-1.0) + 1.0) + 2000.0, 1e-9);
  EXPECT_EQ(loss.correct, 1);
}

/// The expected losses are those of torch.nn.CrossEntropyLoss with these weights.
TEST(Head, LossWithWeightsOfClasses) {
  const auto mean = [](float smoothing) {
    Head<double> head(make_cut({3, 1, 1}, {SoftmaxCrossEntropy{smoothing, 1.0F, {1.0F, 3.0F, 0.5F}}}), 1, 4);
    BasicTensor<double> logits({4, 3});
    const std::vector<double> values{0.5, -1.0, 2.0, 1.5, 0.25, -0.75, -2.0, 1.0, 0.0, 0.0, 0.0, 0.0};
    std::ranges::copy(values, logits.data());
    head.forward(logits, {});
    return head.loss({2, 1, 1, 0}, 3).sum / 3;  // the last sample is padding
  };
  EXPECT_NEAR(mean(0.0F), 0.9092, 5e-5);
  EXPECT_NEAR(mean(0.1F), 0.9363, 5e-5);
}

/// The loss of mixed images is that by their own labels and that by the others, each as it is alone.
TEST(Head, MixesTheLossesOfTwoLabels) {
  for (const std::vector<float>& weights : {std::vector<float>{}, std::vector<float>{1.0F, 3.0F, 0.5F}}) {
    Head<double> head(make_cut({3, 1, 1}, {SoftmaxCrossEntropy{.class_weights = weights}}), 1, 3);
    BasicTensor<double> logits({3, 3});
    const std::vector<double> values{0.5, -1.0, 2.0, 1.5, 0.25, -0.75, -2.0, 1.0, 0.0};
    std::ranges::copy(values, logits.data());
    head.forward(logits, {});
    const double own = head.loss({2, 1, 0}, 3).sum;
    const double other = head.loss({0, 0, 1}, 3).sum;
    Labels mixed{2, 1, 0};
    mixed.others = {0, 0, 1};
    mixed.share = 0.75;
    const BatchLoss loss = head.loss(mixed, 3);
    EXPECT_NEAR(loss.sum, 0.75 * own + 0.25 * other, 1e-12);
    EXPECT_EQ(loss.correct, 1);
    const Labels part = mixed.part(1, 2);
    EXPECT_EQ(part.classes, (std::vector<int>{1, 0}));
    EXPECT_EQ(part.others, (std::vector<int>{0, 1}));
    EXPECT_EQ(part.share, 0.75);
  }
}

/// Frozen layers keep their bits; layers before the first that is trained have no way back; a rate is a factor.
TEST(Head, TrainsLayersThatAreNotFrozen) {
  const auto trained = [](std::vector<float> rates, float learning_rate, bool input_gradient) {
    CutHead cut =
        make_cut({4, 1, 1}, {Dense{5}, Activation::tanh, Dense{4}, Activation::tanh, Dense{3}, SquaredError{}});
    for (std::size_t i = 0; i < rates.size(); ++i) cut.layers[2 * i].rate = rates[i];
    Head<float> head(cut, 1, 2, input_gradient);
    Random random(5, 1);
    for (std::size_t i = 0; i < head.dense_layers(); ++i) {
      auto& state = head.edit(i);
      fill(state.weights.value, random);
      fill(state.bias.value, random);
    }
    Tensor maps({2, 4, 1, 1});
    fill(maps, random);
    for (int step = 0; step < 3; ++step) {
      head.forward(maps, {.training = true});
      head.loss({0, 2}, 2);
      head.backward();
      head.backward_weights();
      head.update({.learning_rate = learning_rate, .momentum = 0.5F, .weight_decay = 0.125F});
    }
    return head;
  };
  const auto same = [](const Tensor& a, const Tensor& b) { return std::ranges::equal(a.span(), b.span()); };
  const Head<float> none = trained({1, 1, 1}, 0.0F, true);
  const Head<float> all = trained({1, 1, 1}, 0.125F, true);
  const Head<float> quarters = trained({0.25F, 0.25F, 0.25F}, 0.5F, false);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(same(all.state(i).weights.value, quarters.state(i).weights.value)) << "a quarter of four times";
  }
  for (const bool input_gradient : {false, true}) {
    const Head<float> some = trained({0, 1, 0}, 0.125F, input_gradient);
    for (std::size_t i = 0; i < 3; ++i) {
      const bool frozen = i != 1;
      EXPECT_EQ(same(some.state(i).weights.value, none.state(i).weights.value), frozen) << i;
      EXPECT_EQ(same(some.state(i).bias.value, none.state(i).bias.value), frozen) << i;
      EXPECT_EQ(some.state(i).weights.moments.empty(), frozen) << i;
    }
  }
  // What comes after a frozen layer still gets the whole gradient: the same as without freezing, in the first step.
  EXPECT_GT(trained({1, 0, 0}, 0.125F, false).gradient_squares(), 0.0);
}

/// A NaN among the outputs makes the loss NaN, and no answer counts as right, whichever place it has.
TEST(Head, OfOutputsThatAreNaNIsNeverRight) {
  for (const LayerSpec& loss : {LayerSpec{SoftmaxCrossEntropy{}}, LayerSpec{SquaredError{}}}) {
    Head<float> head(make_cut({3, 1, 1}, {Flatten{}, loss}), 1, 1);
    for (int at = 0; at < 3; ++at) {
      Tensor maps({1, 3, 1, 1});
      const std::vector<float> outputs{1.0F, 3.0F, 2.0F};
      std::ranges::copy(outputs, maps.data());
      maps.data()[at] = NAN;
      for (int label = 0; label < 3; ++label) {
        head.forward(maps, {});
        const BatchLoss found = head.loss({label}, 1);
        EXPECT_TRUE(std::isnan(found.sum)) << at << " " << label;
        EXPECT_EQ(found.correct, 0) << at << " " << label;
      }
    }
  }
}

TEST(Head, NamesTheDenseLayerThatAnUpdateBroke) {
  Head<float> head(make_cut({2, 1, 1}, {Flatten{}, Dense{.units = 3}, Dense{.units = 2}, SoftmaxCrossEntropy{}}), 1, 1);
  const Tensor maps({1, 2, 1, 1}, 1.0F);
  const auto step = [&] {
    head.forward(maps, {.training = true});
    head.loss({0}, 1);
    head.backward();
    head.backward_weights();
    head.update({.learning_rate = 1.0F});
  };
  step();
  EXPECT_EQ(head.broken(), "");
  head.edit(1).bias.value.data()[1] = INFINITY;
  step();
  EXPECT_EQ(head.broken(), "layer2");
}

/// With smoothing 1/4, PyTorch's loss is 3/4 of the label's -log p plus 1/4 of the mean of -log p over the classes.
TEST(Head, LabelSmoothing) {
  Head<double> head(make_cut({3, 1, 1}, {SoftmaxCrossEntropy{0.25F}}), 1, 1);
  BasicTensor<double> logits({1, 3});
  for (int c = 0; c < 3; ++c) logits.at(0, c) = c;
  head.forward(logits, {});
  const double sum = std::log(std::exp(-2.0) + std::exp(-1.0) + 1.0);
  EXPECT_NEAR(head.loss({2}, 1).sum, 0.75 * sum + 0.25 * (sum + 1.0), 1e-9);
}

TEST(Head, DropoutRestsInTesting) {
  Head<double> head(make_cut({50, 1, 1}, {Dropout{0.5F, 0}, SoftmaxCrossEntropy{}}), 1, 1);
  BasicTensor<double> ones({1, 50}, 1.0);
  const auto testing = head.forward(ones, {.training = false, .seed = 1});
  for (const double value : testing.span()) EXPECT_EQ(value, 1.0);
  int zeros = 0;
  const auto training = head.forward(ones, {.training = true, .seed = 1});
  for (const double value : training.span()) {
    EXPECT_TRUE(value == 0.0 || value == 2.0);
    zeros += value == 0.0 ? 1 : 0;
  }
  EXPECT_GT(zeros, 10);
  EXPECT_LT(zeros, 40);
}

TEST(Head, UpdateIsMomentumWithDecay) {
  Head<double> head(make_cut({1, 1, 1}, {Dense{2}, SquaredError{}}), 1, 1);
  auto& state = head.edit(0);
  state.weights.value.at(0, 0) = 0.5;
  BasicTensor<double> maps({1, 1}, 1.0);
  const UpdateStep step{.learning_rate = 0.5F, .momentum = 0.25F, .weight_decay = 0.125F};
  double w = 0.5;
  double v = 0.0;
  for (int i = 0; i < 3; ++i) {
    head.forward(maps, {.training = true});
    head.loss({1}, 1);
    head.backward();
    head.backward_weights();
    const double gradient = head.weight_gradient(0).at(0, 0);
    head.update(step);
    v = 0.25 * v + (gradient + 0.125 * w);
    w -= 0.5 * v;
    EXPECT_DOUBLE_EQ(state.weights.value.at(0, 0), w);
    EXPECT_DOUBLE_EQ(state.weights.moments[0].at(0, 0), v);
  }
}

TEST(Head, ALossHasAWeight) {
  for (const LayerSpec& loss : {LayerSpec{SoftmaxCrossEntropy{.weight = 0.25F}}, LayerSpec{SquaredError{0.25F}}}) {
    const LayerSpec plain =
        std::holds_alternative<SquaredError>(loss) ? LayerSpec{SquaredError{}} : LayerSpec{SoftmaxCrossEntropy{}};
    Head<double> weighted(make_cut({3, 1, 1}, {loss}), 1, 2);
    Head<double> whole(make_cut({3, 1, 1}, {plain}), 1, 2);
    BasicTensor<double> maps({2, 3}, 0.5);
    maps.at(1, 2) = -1.0;
    weighted.forward(maps, {});
    whole.forward(maps, {});
    EXPECT_EQ(weighted.loss({1, 2}, 2).sum, whole.loss({1, 2}, 2).sum)
        << "the reported loss does not include the weight";
    const BasicTensor<double>& slopes = whole.backward();
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      EXPECT_DOUBLE_EQ(weighted.backward().data()[i], 0.25 * slopes.data()[i]);
    }
  }
}

/// The results agree up to rounding, because products of fewer rows may be summed in another order.
TEST(Head, DoesTheSameInParts) {
  constexpr int kBatch = 5;
  const CutHead cut =
      make_cut({3, 2, 2}, {Dense{7}, Activation::tanh, Dropout{0.5F, 1}, Dense{4}, SoftmaxCrossEntropy{}});
  Head<double> whole(cut, 1, kBatch);
  Head<double> parted(cut, 1, kBatch);
  Random random(1, 1);
  for (std::size_t i = 0; i < whole.dense_layers(); ++i) {
    for (double& weight : whole.edit(i).weights.value.span()) weight = random.uniform(-1.0F, 1.0F);
    parted.edit(i) = whole.edit(i);
  }
  BasicTensor<double> maps({kBatch, 3, 2, 2});
  for (double& value : maps.span()) value = random.uniform(-1.0F, 1.0F);
  const std::vector<int> labels{3, 0, 1, 2, 3};
  const Pass pass{.training = true, .seed = 5};
  whole.forward(maps, pass);
  const auto expected = whole.loss(labels, 4);  // the last sample is padding
  const BasicTensor<double> slopes = whole.backward();
  whole.backward_weights();
  BatchLoss sum;
  for (const SampleRange part : {SampleRange{0, 2}, {2, 2}, {4, 1}}) {
    parted.forward(maps, pass, part);
    const auto loss = parted.loss(labels, 4, part);
    sum.sum += loss.sum;
    sum.correct += loss.correct;
    parted.backward(part);
  }
  parted.backward_weights();
  EXPECT_NEAR(sum.sum, expected.sum, 1e-12);
  EXPECT_EQ(sum.correct, expected.correct);
  for (std::size_t i = 0; i < slopes.size(); ++i)
    EXPECT_NEAR(parted.backward({4, 1}).data()[i], slopes.data()[i], 1e-12);
  for (std::size_t i = 0; i < whole.dense_layers(); ++i) {
    for (std::size_t w = 0; w < whole.weight_gradient(i).size(); ++w) {
      EXPECT_NEAR(parted.weight_gradient(i).data()[w], whole.weight_gradient(i).data()[w], 1e-12);
    }
  }
}

}  // namespace
}  // namespace convoy
