#include "kernels/onednn/relu.hpp"

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

/// The backward pass of a ReLU or leaky ReLU that another primitive has already applied to `output`.
class ReluBackward : public OnednnLayer {
 public:
  ReluBackward(OnednnEngine& engine, const Activation& activation, const Shape& shape, int micro_batch,
               const memory& output)
      : engine_(engine),
        activation_(activation),
        shape_(shape),
        output_(output),
        gradient_(with_samples(output.get_desc(), shape, micro_batch)),
        input_gradient_(engine.make(output.get_desc())) {}

  void forward(const Pass&, SampleRange) override {}
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    const memory output = samples_of(output_, shape_, samples);
    const float* y = floats_of(output);
    const float* dy = floats_of(gradient_.take(engine_, gradient));
    float* dx = floats_of(samples_of(input_gradient_, shape_, samples));
    in_ranges(count_of(output), [&](std::size_t first, std::size_t count) {
      activate_backward(activation_, y + first, dy + first, dx + first, count);
    });
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 protected:
  OnednnEngine& engine_;
  Activation activation_;
  Shape shape_;
  memory output_;

 private:
  OnednnInlet gradient_;
  memory input_gradient_;
};

class ReluLayer : public ReluBackward {
 public:
  ReluLayer(OnednnEngine& engine, const Activation& activation, const Shape& shape, int micro_batch,
            const memory& input)
      : ReluBackward(engine, activation, shape, micro_batch, engine.make(input.get_desc())), input_(input) {}
  void forward(const Pass&, SampleRange samples) override {
    const memory input = samples_of(input_, shape_, samples);
    const float* x = floats_of(input);
    float* y = floats_of(samples_of(output_, shape_, samples));
    in_ranges(count_of(input),
              [&](std::size_t first, std::size_t count) { activate(activation_, x + first, y + first, count); });
  }

 private:
  memory input_;
};

}  // namespace

bool is_relu(const Activation& activation) {
  return activation.kind == Activation::Kind::relu || activation.kind == Activation::Kind::leaky_relu;
}

void activate_in_place(const Activation& activation, const memory& maps) {
  float* values = floats_of(maps);
  in_ranges(count_of(maps),
            [&](std::size_t first, std::size_t count) { activate(activation, values + first, values + first, count); });
}

std::unique_ptr<OnednnLayer> make_onednn_relu(OnednnEngine& engine, const Activation& activation, const Shape& shape,
                                              int micro_batch, const memory& input) {
  return std::make_unique<ReluLayer>(engine, activation, shape, micro_batch, input);
}

std::unique_ptr<OnednnLayer> make_onednn_relu_backward(OnednnEngine& engine, const Activation& activation,
                                                       const Shape& shape, int micro_batch, const memory& output) {
  return std::make_unique<ReluBackward>(engine, activation, shape, micro_batch, output);
}

}  // namespace convoy
