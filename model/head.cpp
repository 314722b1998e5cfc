#include "model/head.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/random.hpp"
#include "kernels/host/activation.hpp"
#include "model/taught_loss.hpp"

namespace convoy {
namespace {

/// The values of the samples in the range, of a tensor whose first extent is the batch.
template <class T>
auto rows_of(T& tensor, SampleRange samples) {
  const auto each = tensor.size() / static_cast<std::size_t>(tensor.shape().n);
  return tensor.span().subspan(static_cast<std::size_t>(samples.first) * each,
                               static_cast<std::size_t>(samples.count) * each);
}

/// Returns softmax cross-entropy of one sample. `gradient` receives the softmax minus the target distribution.
template <class T>
double cross_entropy(std::span<const T> logits, int label, double smoothing, std::span<T> gradient) {
  const T top = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const T logit : logits) sum += std::exp(static_cast<double>(logit - top));
  for (std::size_t c = 0; c < logits.size(); ++c) {
    gradient[c] = static_cast<T>(std::exp(static_cast<double>(logits[c] - top)) / sum);
  }
  // For each class, -log p is log sum - (logit - top).
  const double wanted = static_cast<double>(logits[label] - top);
  gradient[label] -= static_cast<T>(1.0 - smoothing);
  if (smoothing == 0.0) return std::log(sum) - wanted;
  double mean = 0.0;
  const double each = 1.0 / static_cast<double>(logits.size());
  for (std::size_t c = 0; c < logits.size(); ++c) {
    mean += each * static_cast<double>(logits[c] - top);
    gradient[c] -= static_cast<T>(smoothing * each);
  }
  return std::log(sum) - (1.0 - smoothing) * wanted - smoothing * mean;
}

/// The same with a weight for each class. With t the weighted target distribution, the loss is -sum of t log(softmax).
template <class T>
double weighted_cross_entropy(std::span<const T> logits, int label, double smoothing, std::span<const float> weights,
                              std::span<T> gradient) {
  const T top = *std::max_element(logits.begin(), logits.end());
  const double each = smoothing / static_cast<double>(logits.size());
  double sum = 0.0;
  for (const T logit : logits) sum += std::exp(static_cast<double>(logit - top));
  const auto target = [&](std::size_t c) {
    return static_cast<double>(weights[c]) * (each + (static_cast<int>(c) == label ? 1.0 - smoothing : 0.0));
  };
  double targets = 0.0;
  double loss = 0.0;
  for (std::size_t c = 0; c < logits.size(); ++c) {
    targets += target(c);
    loss += target(c) * (std::log(sum) - static_cast<double>(logits[c] - top));
  }
  for (std::size_t c = 0; c < logits.size(); ++c) {
    gradient[c] = static_cast<T>(targets * std::exp(static_cast<double>(logits[c] - top)) / sum - target(c));
  }
  return loss;
}

/// Returns 1/2 sum (output - one_hot)^2 of one sample. `gradient` receives output - one_hot.
template <class T>
double squared_error(std::span<const T> outputs, int label, std::span<T> gradient) {
  double sum = 0.0;
  for (std::size_t c = 0; c < outputs.size(); ++c) {
    gradient[c] = outputs[c] - (static_cast<int>(c) == label ? T{1} : T{0});
    sum += 0.5 * static_cast<double>(gradient[c]) * static_cast<double>(gradient[c]);
  }
  return sum;
}

}  // namespace

template <class T>
int index_of_largest(std::span<const T> outputs) {
  if (std::ranges::any_of(outputs, [](T output) { return std::isnan(output); })) return -1;
  return static_cast<int>(std::ranges::max_element(outputs) - outputs.begin());
}
template int index_of_largest(std::span<const float>);
template int index_of_largest(std::span<const double>);

template <class T>
Head<T>::Head(const CutHead& cut, int moments, int batch, bool input_gradient, const MakeDense<T>& make)
    : batch_(batch), moments_(moments), input_gradient_(input_gradient) {
  int features = cut.maps.size();
  slopes_.emplace_back(Shape{batch, cut.maps.channels, cut.maps.height, cut.maps.width}, T{0});
  for (const Layer& layer : cut.layers) add_step(layer, features, make);
  while (first_trained_ < steps_.size() &&
         (steps_[first_trained_].dense < 0 || frozen(static_cast<std::size_t>(steps_[first_trained_].dense)))) {
    ++first_trained_;
  }
}

template <class T>
void Head<T>::add_step(const Layer& layer, int& features, const MakeDense<T>& make) {
  if (std::holds_alternative<Flatten>(layer.spec)) return;
  if (std::holds_alternative<SoftmaxCrossEntropy>(layer.spec) || std::holds_alternative<SquaredError>(layer.spec)) {
    const auto* softmax = std::get_if<SoftmaxCrossEntropy>(&layer.spec);
    softmax_ = softmax != nullptr;
    if (softmax_) label_smoothing_ = softmax->label_smoothing;
    if (softmax_) class_weights_ = softmax->class_weights;
    loss_weight_ = softmax_ ? softmax->weight : std::get<SquaredError>(layer.spec).weight;
    return;
  }
  Step step{layer.spec, features, features, -1};
  if (const auto* dense = std::get_if<Dense>(&layer.spec)) {
    const bool trains_before = std::ranges::any_of(dense_, [](const auto& each) { return !each->spec().frozen(); });
    step.outputs = dense->units;
    step.dense = static_cast<int>(dense_.size());
    dense_.push_back(make({.name = layer.name,
                           .inputs = features,
                           .units = dense->units,
                           .batch = batch_,
                           .moments = moments_,
                           .rate = layer.rate,
                           .input_gradient = input_gradient_ || trains_before}));
    features = dense->units;
  } else if (!std::holds_alternative<Activation>(layer.spec) && !std::holds_alternative<Dropout>(layer.spec)) {
    fail("layer {}: it cannot be part of a head; only dense, activation, dropout and loss layers can", layer.name);
  }
  steps_.push_back(step);
  outputs_.emplace_back(Shape{batch_, features});
  slopes_.emplace_back(Shape{batch_, features}, T{0});
  scales_.resize(steps_.size());
  if (std::holds_alternative<Dropout>(layer.spec)) scales_.back() = BasicTensor<T>({batch_, features}, T{1});
}

template <class T>
const BasicTensor<T>& Head<T>::forward(const BasicTensor<T>& maps, const Pass& pass, SampleRange samples) {
  invariant(maps.shape() == slopes_[0].shape(), "the maps have the head's input shape");
  maps_ = &maps;
  for (std::size_t i = 0; i < steps_.size(); ++i) forward_step(i, pass, samples);
  return value(steps_.size());
}

template <class T>
void Head<T>::forward_step(std::size_t index, const Pass& pass, SampleRange samples) {
  const Step& step = steps_[index];
  const std::span<const T> x = rows_of(value(index), samples);
  const std::span<T> y = rows_of(outputs_[index], samples);
  if (step.dense >= 0) {
    if (!computes_) {
      std::ranges::fill(y, T{0});
      return;
    }
    dense_[step.dense]->forward(x, y, pass, samples);
  } else if (const auto* activation = std::get_if<Activation>(&step.spec)) {
    activate(*activation, x.data(), y.data(), x.size());
  } else {
    const auto& dropout = std::get<Dropout>(step.spec);
    const std::span<T> scale = rows_of(scales_[index], samples);
    std::size_t i = 0;
    for (int n = samples.first; n < samples.first + samples.count; ++n) {
      for (int c = 0; c < step.inputs; ++c, ++i) {
        scale[i] =
            pass.training ? static_cast<T>(dropout_scale(pass.seed, dropout.stream, dropout.rate, n, c, 0)) : T{1};
        y[i] = x[i] * scale[i];
      }
    }
  }
}

template <class T>
double Head<T>::share_of(std::span<const int> classes) const {
  if (class_weights_.empty()) return 1.0;
  double weights = 0.0;
  for (const int label : classes) weights += static_cast<double>(class_weights_.at(static_cast<std::size_t>(label)));
  return static_cast<double>(classes.size()) / weights;
}

template <class T>
double Head<T>::loss_by(int label, double share, std::span<const T> row, std::span<T> gradient) const {
  invariant(label >= 0 && label < static_cast<int>(row.size()), "labels lie within the classes");
  if (!softmax_) return squared_error<T>(row, label, gradient);
  if (class_weights_.empty()) return cross_entropy<T>(row, label, label_smoothing_, gradient);
  const double loss = share * weighted_cross_entropy<T>(row, label, label_smoothing_, class_weights_, gradient);
  for (T& value : gradient) value *= static_cast<T>(share);
  return loss;
}

template <class T>
BatchLoss Head<T>::loss(const Labels& labels, int count, SampleRange samples) {
  const auto counted = static_cast<std::size_t>(count);
  invariant(labels.classes.size() >= counted && count <= batch_, "there is a label for each counted sample");
  invariant(!labels.mixed() || labels.others.size() >= counted, "each mixed sample has two labels");
  const BasicTensor<T>& outputs = value(steps_.size());
  BasicTensor<T>& gradient = slopes_.back();
  std::ranges::fill(rows_of(gradient, samples), T{0});
  BatchLoss loss;
  // The batch's losses are divided by the sum of its labels' weights, where others are divided by their count.
  const double share = share_of(std::span(labels.classes).first(counted));
  const double other_share = labels.mixed() ? share_of(std::span(labels.others).first(counted)) : 1.0;
  std::vector<T> other(labels.mixed() ? static_cast<std::size_t>(outputs.shape().sample_size()) : 0);
  for (int n = samples.first; n < std::min(count, samples.first + samples.count); ++n) {
    const int label = labels.classes[n];
    const auto row = outputs.sample(n);
    const auto slope_row = gradient.sample(n);
    double hard = loss_by(label, share, row, slope_row);
    if (labels.mixed()) {
      const double less = 1.0 - labels.share;
      hard = labels.share * hard + less * loss_by(labels.others[n], other_share, row, other);
      for (std::size_t c = 0; c < other.size(); ++c)
        slope_row[c] = static_cast<T>(labels.share) * slope_row[c] + static_cast<T>(less) * other[c];
    }
    loss.sum += labels.taught() ? taught_loss<T>(row, labels.soft.sample(n), labels, hard, slope_row) : hard;
    for (T& value : slope_row) value *= static_cast<T>(loss_weight_ / count);
    if (index_of_largest<T>(row) == label) ++loss.correct;
  }
  return loss;
}

template <class T>
const BasicTensor<T>& Head<T>::backward(SampleRange samples) {
  const std::size_t last = input_gradient_ ? 0 : first_trained_;
  for (std::size_t i = steps_.size(); i-- > last;) backward_step(i, samples);
  return slopes_[0];
}

template <class T>
void Head<T>::backward_step(std::size_t index, SampleRange samples) {
  const Step& step = steps_[index];
  const std::span<const T> dy = rows_of(std::as_const(slopes_[index + 1]), samples);
  const std::span<T> dx = rows_of(slopes_[index], samples);
  if (step.dense >= 0) {
    if (!computes_) {
      std::ranges::fill(dx, T{0});
      return;
    }
    dense_[step.dense]->backward(dy, dx, samples);
  } else if (const auto* activation = std::get_if<Activation>(&step.spec)) {
    const std::span<const T> x = rows_of(value(index), samples);
    const std::span<const T> y = rows_of(std::as_const(outputs_[index]), samples);
    activate_backward(*activation, x.data(), y.data(), dy.data(), dx.data(), dx.size());
  } else {
    const std::span<const T> scale = rows_of(std::as_const(scales_[index]), samples);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i] * scale[i];
  }
}

template <class T>
void Head<T>::backward_weights() {
  if (!computes_) return;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].dense < 0) continue;
    dense_[steps_[i].dense]->backward_weights(value(i).span(), slopes_[i + 1].span());
  }
}

template <class T>
void Head<T>::update(const UpdateStep& step) {
  if (!computes_) return;
  for (const auto& dense : dense_) dense->update(step);
}

template <class T>
std::string Head<T>::broken() const {
  const auto found = std::ranges::find_if(dense_, [](const auto& dense) { return !dense->finite(); });
  return found == dense_.end() ? "" : (*found)->spec().name;
}

template <class T>
double Head<T>::gradient_squares() const {
  double sum = 0.0;
  for (const auto& dense : dense_) sum += dense->gradient_squares();
  return sum;
}

template class Head<float>;
template class Head<double>;

}  // namespace convoy
