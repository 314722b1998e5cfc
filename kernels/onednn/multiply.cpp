// Products of maps as loops over oneDNN's layouts: its own product has no fast kernel for a factor for each map of each
// sample.

#include <algorithm>
#include <array>

#include "kernels/onednn/join.hpp"

namespace convoy {

using dnnl::memory;

namespace {

Shape shape_of_factors(const Multiply& multiply, const Shape& maps) {
  return multiply.by_points ? Shape{maps.n, maps.c, 1, 1} : maps;
}

class MultiplyLayer : public OnednnJoin {
 public:
  MultiplyLayer(OnednnEngine& engine, const Multiply& multiply, const Shape& shape, int micro_batch,
                const memory& input)
      : engine_(engine),
        by_points_(multiply.by_points),
        shape_(shape),
        factor_shape_(shape_of_factors(multiply, shape)),
        input_(input),
        output_(engine.make(input.get_desc())),
        input_gradient_(engine.make(input.get_desc())),
        factor_gradient_(engine.make(desc_of(factor_shape_, layout_of(input.get_desc(), shape)))),
        gradient_inlet_(with_samples(input.get_desc(), shape, micro_batch)),
        factor_inlet_(desc_of({micro_batch, factor_shape_.c, factor_shape_.h, factor_shape_.w},
                              layout_of(input.get_desc(), shape))) {}

  void connect(const memory& maps) override { factors_ = maps; }
  void forward(const Pass&, SampleRange samples) override {
    multiply(samples_of(input_, shape_, samples), take_factors(samples), samples_of(output_, shape_, samples), samples);
  }
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    const memory slopes = gradient_inlet_.take(engine_, gradient);
    multiply(slopes, take_factors(samples), samples_of(input_gradient_, shape_, samples), samples);
    const memory input = samples_of(input_, shape_, samples);
    const memory to = samples_of(factor_gradient_, factor_shape_, samples);
    if (by_points_) {
      sum_products(slopes, input, to, samples);
    } else {
      multiply(slopes, floats_of(input), to, samples);
    }
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const memory& taken_gradient() const override { return factor_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 private:
  LanedMaps laned(SampleRange samples) const {
    const Shape shape{samples.count, shape_.c, shape_.h, shape_.w};
    return lanes_of(with_samples(input_.get_desc(), shape_, samples.count), shape);
  }
  const float* take_factors(SampleRange samples) {
    invariant(static_cast<bool>(factors_), "connect is called before forward");
    return floats_of(factor_inlet_.take(engine_, samples_of(factors_, factor_shape_, samples)));
  }
  void multiply(const memory& from, const float* factors, const memory& to, SampleRange samples) const;
  void sum_products(const memory& slopes, const memory& input, const memory& to, SampleRange samples) const;

  OnednnEngine& engine_;
  bool by_points_;
  Shape shape_;
  Shape factor_shape_;
  memory input_;
  memory factors_;
  memory output_;
  memory input_gradient_;
  memory factor_gradient_;
  OnednnInlet gradient_inlet_;
  OnednnInlet factor_inlet_;
};

/// Multiplies maps by `factors`, row by row: by those of the same elements, or by the one of a lane of a plane.
void MultiplyLayer::multiply(const memory& from, const float* factors, const memory& to, SampleRange samples) const {
  const LanedMaps maps = laned(samples);
  const float* x = floats_of(from);
  float* y = floats_of(to);
  const auto lanes = static_cast<std::size_t>(maps.lanes);
  const std::size_t row = static_cast<std::size_t>(maps.width) * lanes;
#pragma omp parallel for schedule(static)
  for (int r = 0; r < maps.planes * maps.height; ++r) {
    const std::size_t first = static_cast<std::size_t>(r) * row;
    if (!by_points_) {
      for (std::size_t i = first; i < first + row; ++i) y[i] = x[i] * factors[i];
      continue;
    }
    const float* of_plane = factors + static_cast<std::size_t>(r / maps.height) * lanes;
    for (std::size_t i = first; i < first + row; i += lanes) {
      for (std::size_t lane = 0; lane < lanes; ++lane) y[i + lane] = x[i + lane] * of_plane[lane];
    }
  }
}

/// Sums the products of slopes and input over each map, for some lanes at a time.
void MultiplyLayer::sum_products(const memory& slopes, const memory& input, const memory& to,
                                 SampleRange samples) const {
  constexpr std::size_t kSome = 16;
  const LanedMaps maps = laned(samples);
  const float* dy = floats_of(slopes);
  const float* x = floats_of(input);
  float* sums = floats_of(to);
  const auto lanes = static_cast<std::size_t>(maps.lanes);
  const std::size_t plane = static_cast<std::size_t>(maps.height) * static_cast<std::size_t>(maps.width) * lanes;
  const int parts = static_cast<int>((lanes + kSome - 1) / kSome);
#pragma omp parallel for schedule(static)
  for (int p = 0; p < maps.planes * parts; ++p) {
    const auto number = static_cast<std::size_t>(p / parts);
    const std::size_t first = static_cast<std::size_t>(p % parts) * kSome;
    const std::size_t count = std::min(kSome, lanes - first);
    std::array<double, kSome> sum{};
    for (std::size_t i = number * plane + first; i < (number + 1) * plane; i += lanes) {
      for (std::size_t lane = 0; lane < count; ++lane) sum[lane] += static_cast<double>(dy[i + lane]) * x[i + lane];
    }
    for (std::size_t lane = 0; lane < count; ++lane) {
      sums[number * lanes + first + lane] = static_cast<float>(sum[lane]);
    }
  }
}

}  // namespace

std::unique_ptr<OnednnJoin> make_onednn_multiply(OnednnEngine& engine, const Multiply& multiply, const Shape& shape,
                                                 int micro_batch, const memory& input) {
  return std::make_unique<MultiplyLayer>(engine, multiply, shape, micro_batch, input);
}

}  // namespace convoy
