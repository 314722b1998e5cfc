#include "model/dense_layer.hpp"

#include <algorithm>
#include <vector>

#include "kernels/host/matmul.hpp"

namespace convoy {
namespace {

template <class T>
void add_bias(std::span<T> y, const BasicTensor<T>& bias) {
  for (std::size_t i = 0; i < y.size(); i += bias.size()) {
    for (std::size_t u = 0; u < bias.size(); ++u) y[i + u] += bias.data()[u];
  }
}

/// Adds up the rows, each of as many numbers as there are sums.
template <class T>
void sum_rows(std::span<const T> rows, std::span<T> sums) {
  std::ranges::fill(sums, T{0});
  for (std::size_t i = 0; i < rows.size(); i += sums.size()) {
    for (std::size_t u = 0; u < sums.size(); ++u) sums[u] += rows[i + u];
  }
}

template <class T>
bool update_dense(const UpdateStep& step, const BasicTensor<T>& gradient, BasicParameter<T>& parameter) {
  std::vector<T*> moments;
  for (BasicTensor<T>& moment : parameter.moments) moments.push_back(moment.data());
  return update_parameter(step, gradient.span(), parameter.value.data(), moments.data());
}

template <class T>
class HostDense : public DenseLayer<T> {
 public:
  explicit HostDense(const DenseSpec& spec)
      : spec_(spec),
        state_{spec.name, zeros(spec.inputs), zeros(1)},
        weights_(state_.weights.value),
        bias_(state_.bias.value) {}

  const DenseSpec& spec() const override { return spec_; }

  void forward(std::span<const T> x, std::span<T> y, const Pass&, SampleRange samples) override {
    matmul(Matmul<T>{.m = samples.count,
                     .n = spec_.units,
                     .k = spec_.inputs,
                     .transpose_b = true,
                     .a = x,
                     .b = state_.weights.value.span(),
                     .c = y});
    add_bias(y, state_.bias.value);
  }

  void backward(std::span<const T> dy, std::span<T> dx, SampleRange samples) override {
    if (!spec_.input_gradient) return;
    matmul(Matmul<T>{
        .m = samples.count, .n = spec_.inputs, .k = spec_.units, .a = dy, .b = state_.weights.value.span(), .c = dx});
  }

  void backward_weights(std::span<const T> x, std::span<const T> dy) override {
    if (spec_.frozen()) return;
    matmul(Matmul<T>{.m = spec_.units,
                     .n = spec_.inputs,
                     .k = spec_.batch,
                     .transpose_a = true,
                     .a = dy,
                     .b = x,
                     .c = weights_.span()});
    sum_rows(dy, bias_.span());
  }

  void update(const UpdateStep& step) override {
    if (spec_.frozen()) return;
    const UpdateStep mine = with_rate(step, spec_.rate);
    const bool weights = update_dense(mine, weights_, state_.weights);
    const bool bias = update_dense(mine, bias_, state_.bias);
    if (!(weights && bias)) finite_ = false;
  }

  bool finite() const override { return finite_; }
  const DenseState<T>& state() const override { return state_; }
  void set_state(const DenseState<T>& state) override { edit() = state; }
  DenseState<T>& edit() override {
    finite_ = true;
    return state_;
  }
  const BasicTensor<T>& weight_gradient() const override { return weights_; }
  const BasicTensor<T>& bias_gradient() const override { return bias_; }

 private:
  BasicParameter<T> zeros(int inputs) const {
    const BasicTensor<T> zero({spec_.units, inputs}, T{0});
    const auto moments = static_cast<std::size_t>(spec_.frozen() ? 0 : spec_.moments);
    return {zero, std::vector<BasicTensor<T>>(moments, zero)};
  }

  DenseSpec spec_;
  DenseState<T> state_;
  BasicTensor<T> weights_;  ///< the gradients
  BasicTensor<T> bias_;
  bool finite_ = true;
};

}  // namespace

template <class T>
std::unique_ptr<DenseLayer<T>> make_host_dense(const DenseSpec& spec) {
  return std::make_unique<HostDense<T>>(spec);
}
template std::unique_ptr<DenseLayer<float>> make_host_dense(const DenseSpec& spec);
template std::unique_ptr<DenseLayer<double>> make_host_dense(const DenseSpec& spec);

}  // namespace convoy
