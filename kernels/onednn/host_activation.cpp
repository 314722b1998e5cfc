#include "kernels/onednn/host_activation.hpp"

#include <algorithm>

#include "kernels/host/activation.hpp"

namespace convoy {

using dnnl::memory;

namespace {

/// Calls work(first, count) for ranges that cover 0 .. count - 1, on all threads.
template <class Work>
void in_ranges(std::size_t count, Work work) {
  constexpr std::size_t kSome = 16384;
#pragma omp parallel for schedule(static)
  for (std::size_t first = 0; first < count; first += kSome) work(first, std::min(kSome, count - first));
}

bool moves_zero(const Activation& activation) {
  float value = 0.0F;
  activate(activation, &value, &value, 1);
  return value != 0.0F;
}

/// Makes the channels that fill up the last block zero again. Primitives count on it: else the weights that belong to
/// these channels would have gradients.
void clear_padding(const memory& maps, const Shape& shape) {
  const LanedMaps laned = lanes_of(maps.get_desc(), shape);
  const int blocks = laned.planes / shape.n;
  const auto lanes = static_cast<std::size_t>(laned.lanes);
  const int used = shape.c - (blocks - 1) * laned.lanes;
  if (used == laned.lanes) return;
  const std::size_t plane = static_cast<std::size_t>(laned.height) * static_cast<std::size_t>(laned.width) * lanes;
  for (int n = 0; n < shape.n; ++n) {
    float* values = floats_of(maps) + static_cast<std::size_t>((n + 1) * blocks - 1) * plane;
    for (std::size_t at = 0; at < plane; at += lanes) std::fill(values + at + used, values + at + lanes, 0.0F);
  }
}

/// The backward pass of an activation that another primitive has already applied to `output`.
class HostActivationBackward : public OnednnLayer {
 public:
  HostActivationBackward(OnednnEngine& engine, const Activation& activation, const Shape& shape, int micro_batch,
                         const memory& output)
      : engine_(engine),
        activation_(activation),
        shape_(shape),
        input_(output),
        output_(output),
        gradient_(with_samples(output.get_desc(), shape, micro_batch)),
        input_gradient_(engine.make(output.get_desc())) {}

  void forward(const Pass&, SampleRange) override {}
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    const memory output = samples_of(output_, shape_, samples);
    const float* x = floats_of(samples_of(input_, shape_, samples));
    const float* y = floats_of(output);
    const float* dy = floats_of(gradient_.take(engine_, gradient));
    float* dx = floats_of(samples_of(input_gradient_, shape_, samples));
    in_ranges(count_of(output), [&](std::size_t first, std::size_t count) {
      activate_backward(activation_, x + first, y + first, dy + first, dx + first, count);
    });
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 protected:
  OnednnEngine& engine_;
  Activation activation_;
  Shape shape_;
  memory input_;  ///< the output, where the input is not kept
  memory output_;

 private:
  OnednnInlet gradient_;
  memory input_gradient_;
};

class HostActivationLayer : public HostActivationBackward {
 public:
  HostActivationLayer(OnednnEngine& engine, const Activation& activation, const Shape& shape, int micro_batch,
                      const memory& input)
      : HostActivationBackward(engine, activation, shape, micro_batch, engine.make(input.get_desc())),
        moves_zero_(moves_zero(activation)) {
    input_ = input;
  }
  void forward(const Pass&, SampleRange samples) override {
    const memory output = samples_of(output_, shape_, samples);
    const float* x = floats_of(samples_of(input_, shape_, samples));
    float* y = floats_of(output);
    in_ranges(count_of(output),
              [&](std::size_t first, std::size_t count) { activate(activation_, x + first, y + first, count); });
    if (moves_zero_) clear_padding(output, {samples.count, shape_.c, shape_.h, shape_.w});
  }

 private:
  bool moves_zero_;
};

}  // namespace

bool is_on_host(const Activation& activation) {
  switch (activation.kind) {
    case Activation::Kind::sigmoid:
    case Activation::Kind::tanh:
    case Activation::Kind::silu:
    case Activation::Kind::gelu: return false;
    default: return true;
  }
}

void activate_in_place(const Activation& activation, const memory& maps, const Shape& shape) {
  float* values = floats_of(maps);
  in_ranges(count_of(maps),
            [&](std::size_t first, std::size_t count) { activate(activation, values + first, values + first, count); });
  if (moves_zero(activation)) clear_padding(maps, shape);
}

std::unique_ptr<OnednnLayer> make_onednn_host_activation(OnednnEngine& engine, const Activation& activation,
                                                         const Shape& shape, int micro_batch, const memory& input) {
  return std::make_unique<HostActivationLayer>(engine, activation, shape, micro_batch, input);
}

std::unique_ptr<OnednnLayer> make_onednn_host_activation_backward(OnednnEngine& engine, const Activation& activation,
                                                                  const Shape& shape, int micro_batch,
                                                                  const memory& output) {
  return std::make_unique<HostActivationBackward>(engine, activation, shape, micro_batch, output);
}

}  // namespace convoy
