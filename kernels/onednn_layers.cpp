// Channel layers in oneDNN's layouts.

#include <omp.h>

#include <cstring>

#include "core/large_pages.hpp"
#include "core/random.hpp"
#include "kernels/max_pool.hpp"
#include "kernels/onednn_engine.hpp"

namespace convoy {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

void OnednnEngine::use_threads() const { omp_set_num_threads(threads); }

memory OnednnEngine::make(const memory::desc& desc) const {
  memory made(desc, engine);
  prefer_large_pages(made.get_data_handle(), desc.get_size());
  return made;
}

void OnednnEngine::reorder(const memory& from, const memory& to) {
  use_threads();
  const std::pair key{from.get_desc(), to.get_desc()};
  for (const auto& [known, primitive] : reorders_) {
    if (known == key) return run(primitive, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  reorders_.emplace_back(key, dnnl::reorder(from, to));
  run(reorders_.back().second, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void OnednnEngine::run(const dnnl::primitive& primitive, const std::unordered_map<int, memory>& arguments) {
  primitive.execute(stream, arguments);
}

memory::dims dims_of(const Shape& shape) { return {shape.n, shape.c, shape.h, shape.w}; }

memory::desc plain_desc(const Shape& shape) {
  return {dims_of(shape), memory::data_type::f32, memory::format_tag::nchw};
}

memory::desc desc_of(const Shape& shape, memory::format_tag layout) {
  return {dims_of(shape), memory::data_type::f32, layout};
}

void OnednnTensor::write(std::span<const float> values) {
  invariant(values.size() == shape_.size(), "as many values as the tensor holds");
  const dnnl::memory::desc plain = plain_desc(shape_);
  if (memory_.get_desc() == plain) {
    std::memcpy(memory_.get_data_handle(), values.data(), values.size_bytes());
    return;
  }
  engine_.reorder(dnnl::memory(plain, engine_.engine, const_cast<float*>(values.data())), memory_);
}

void OnednnTensor::read(std::span<float> values) const {
  invariant(values.size() == shape_.size(), "as many values as the tensor holds");
  const dnnl::memory::desc plain = plain_desc(shape_);
  if (memory_.get_desc() == plain) {
    std::memcpy(values.data(), memory_.get_data_handle(), values.size_bytes());
    return;
  }
  engine_.reorder(memory_, dnnl::memory(plain, engine_.engine, values.data()));
}

const memory& OnednnInlet::take(OnednnEngine& engine, const memory& from) {
  if (from.get_desc() == desc_) return from;
  if (!converted_) converted_ = engine.make(desc_);
  engine.reorder(from, converted_);
  return converted_;
}

algorithm onednn_algorithm(Activation activation) {
  switch (activation) {
    case Activation::relu: return algorithm::eltwise_relu;
    case Activation::sigmoid: return algorithm::eltwise_logistic;
    case Activation::tanh: return algorithm::eltwise_tanh;
  }
  return algorithm::eltwise_relu;
}

namespace {

/// The algorithm that finds an activation's slope from its output.
algorithm backward_algorithm(Activation activation) {
  switch (activation) {
    case Activation::relu: return algorithm::eltwise_relu_use_dst_for_bwd;
    case Activation::sigmoid: return algorithm::eltwise_logistic_use_dst_for_bwd;
    case Activation::tanh: return algorithm::eltwise_tanh_use_dst_for_bwd;
  }
  return algorithm::eltwise_relu_use_dst_for_bwd;
}

class ActivationBackward : public OnednnLayer {
 public:
  ActivationBackward(OnednnEngine& engine, Activation activation, const memory& output)
      : engine_(engine),
        output_(output),
        gradient_(output.get_desc()),
        input_gradient_(engine.make(output.get_desc())) {
    const memory::desc desc = output.get_desc();
    const dnnl::eltwise_forward::primitive_desc hint(
        {prop_kind::forward_training, backward_algorithm(activation), desc, 0.0F}, engine.engine);
    backward_ = dnnl::eltwise_backward({{backward_algorithm(activation), desc, desc, 0.0F}, engine.engine, hint});
  }

  void forward(const Pass&) override {}
  const memory& output() const override { return output_; }
  const memory& backward(const memory& gradient) override {
    engine_.run(backward_, {{DNNL_ARG_DST, output_},
                            {DNNL_ARG_DIFF_DST, gradient_.take(engine_, gradient)},
                            {DNNL_ARG_DIFF_SRC, input_gradient_}});
    return input_gradient_;
  }

 protected:
  OnednnEngine& engine_;
  memory output_;

 private:
  OnednnInlet gradient_;
  memory input_gradient_;
  dnnl::eltwise_backward backward_;
};

class ActivationLayer : public ActivationBackward {
 public:
  ActivationLayer(OnednnEngine& engine, Activation activation, const memory& input)
      : ActivationBackward(engine, activation, engine.make(input.get_desc())), input_(input) {
    forward_ = dnnl::eltwise_forward(
        {{prop_kind::forward_training, onednn_algorithm(activation), input.get_desc(), 0.0F}, engine.engine});
  }
  void forward(const Pass&) override { engine_.run(forward_, {{DNNL_ARG_SRC, input_}, {DNNL_ARG_DST, output_}}); }

 private:
  memory input_;
  dnnl::eltwise_forward forward_;
};

/// The layout of a primitive's maps: all that oneDNN has on CPUs.
memory::format_tag layout_of(const memory::desc& desc, const Shape& shape) {
  using Tag = memory::format_tag;
  for (const Tag tag : {Tag::nhwc, Tag::nChw16c, Tag::nChw8c, Tag::nChw4c}) {
    if (desc == desc_of(shape, tag)) return tag;
  }
  invariant(desc == plain_desc(shape), "maps with channels last, in blocks, or plain");
  return Tag::nchw;
}

LanedMaps lanes_of(memory::format_tag layout, const Shape& shape) {
  const auto in_blocks = [&](int block) {
    return LanedMaps{shape.n * ((shape.c + block - 1) / block), shape.h, shape.w, block};
  };
  switch (layout) {
    case memory::format_tag::nhwc: return {shape.n, shape.h, shape.w, shape.c};
    case memory::format_tag::nChw16c: return in_blocks(16);
    case memory::format_tag::nChw8c: return in_blocks(8);
    case memory::format_tag::nChw4c: return in_blocks(4);
    default: return in_blocks(1);
  }
}

float* values_of(const memory& maps) { return static_cast<float*>(maps.get_data_handle()); }

/// 1.3 to 3 times as fast as oneDNN 2.6's max pooling, and it finds the slope of a ReLU before it by the way.
class MaxPoolLayer : public OnednnLayer {
 public:
  MaxPoolLayer(OnednnEngine& engine, const Pooling& pool, const Shape& shape, const memory& input, bool after_relu)
      : engine_(engine),
        input_(input),
        after_relu_(after_relu),
        pool_(pool, lanes_of(layout_of(input.get_desc(), shape), shape)),
        output_(engine.make(desc_of(pooled_shape(pool, shape), layout_of(input.get_desc(), shape)))),
        input_gradient_(engine.make(input.get_desc())),
        gradient_(output_.get_desc()),
        places_(output_.get_desc().get_size() / sizeof(float)) {}

  void forward(const Pass&) override {
    pool_.forward(values_of(input_), after_relu_, values_of(output_), places_.data());
  }
  const memory& output() const override { return output_; }
  const memory& backward(const memory& gradient) override {
    pool_.backward(values_of(gradient_.take(engine_, gradient)), places_.data(), values_of(input_gradient_));
    return input_gradient_;
  }

 private:
  OnednnEngine& engine_;
  memory input_;
  bool after_relu_;
  MaxPool pool_;
  memory output_;
  memory input_gradient_;
  OnednnInlet gradient_;
  std::vector<PoolPlace> places_;
};

class AveragePoolLayer : public OnednnLayer {
 public:
  AveragePoolLayer(OnednnEngine& engine, const Pooling& pool, const Shape& shape, const memory& input)
      : engine_(engine), input_(input) {
    const algorithm kind = algorithm::pooling_avg_exclude_padding;
    const memory::dims strides{pool.stride_h, pool.stride_w};
    const memory::dims kernel{pool.kernel_h, pool.kernel_w};
    const memory::dims before{pool.pad.top, pool.pad.left};
    const memory::dims after{pool.pad.bottom, pool.pad.right};
    const dnnl::pooling_forward::primitive_desc forward(
        {prop_kind::forward_training, kind, input.get_desc(),
         desc_of(pooled_shape(pool, shape), memory::format_tag::any), strides, kernel, before, after},
        engine.engine);
    const dnnl::pooling_backward::primitive_desc backward(
        {kind, input.get_desc(), forward.dst_desc(), strides, kernel, before, after}, engine.engine, forward);
    forward_ = dnnl::pooling_forward(forward);
    backward_ = dnnl::pooling_backward(backward);
    output_ = engine.make(forward.dst_desc());
    input_gradient_ = engine.make(input.get_desc());
    gradient_ = OnednnInlet(forward.dst_desc());
  }

  void forward(const Pass&) override { engine_.run(forward_, {{DNNL_ARG_SRC, input_}, {DNNL_ARG_DST, output_}}); }
  const memory& output() const override { return output_; }
  const memory& backward(const memory& gradient) override {
    engine_.run(backward_,
                {{DNNL_ARG_DIFF_DST, gradient_.take(engine_, gradient)}, {DNNL_ARG_DIFF_SRC, input_gradient_}});
    return input_gradient_;
  }

 private:
  OnednnEngine& engine_;
  memory input_;
  memory output_;
  memory input_gradient_;
  OnednnInlet gradient_;
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
};

class DropoutLayer : public OnednnLayer {
 public:
  DropoutLayer(OnednnEngine& engine, const Dropout& dropout, const Shape& shape, const memory& input, int first_filter)
      : engine_(engine),
        dropout_(dropout),
        first_filter_(first_filter),
        input_(input),
        output_(engine.make(input.get_desc())),
        plain_(shape),
        scale_(engine.make(input.get_desc())),
        gradient_(input.get_desc()),
        input_gradient_(engine.make(input.get_desc())) {
    const memory::desc desc = input.get_desc();
    multiply_ = dnnl::binary({{algorithm::binary_mul, desc, desc, desc}, engine.engine});
  }

  void forward(const Pass& pass) override {
    draw(pass);
    multiply(input_, output_);
  }
  const memory& output() const override { return output_; }
  const memory& backward(const memory& gradient) override {
    multiply(gradient_.take(engine_, gradient), input_gradient_);
    return input_gradient_;
  }

 private:
  void draw(const Pass& pass) {
    const Shape& shape = plain_.shape();
    float* scale = plain_.data();
    for (int n = 0; n < shape.n; ++n) {
      for (int c = 0; c < shape.c; ++c) {
        for (int i = 0; i < shape.h * shape.w; ++i) {
          *scale++ =
              pass.training ? dropout_scale(pass.seed, dropout_.stream, dropout_.rate, n, first_filter_ + c, i) : 1.0F;
        }
      }
    }
    engine_.reorder(memory(plain_desc(shape), engine_.engine, plain_.data()), scale_);
  }
  void multiply(const memory& from, const memory& to) {
    engine_.run(multiply_, {{DNNL_ARG_SRC_0, from}, {DNNL_ARG_SRC_1, scale_}, {DNNL_ARG_DST, to}});
  }

  OnednnEngine& engine_;
  Dropout dropout_;
  int first_filter_;
  memory input_;
  memory output_;
  Tensor plain_;
  memory scale_;
  OnednnInlet gradient_;
  memory input_gradient_;
  dnnl::binary multiply_;
};

}  // namespace

std::unique_ptr<OnednnLayer> make_onednn_layer(OnednnEngine& engine, const ChannelLayer& layer, const Shape& shape,
                                               const memory& input, int first_filter, bool after_relu) {
  if (const auto* activation = std::get_if<Activation>(&layer)) {
    return std::make_unique<ActivationLayer>(engine, *activation, input);
  }
  if (const auto* pool = std::get_if<Pooling>(&layer)) {
    if (pool->kind == PoolKind::max) {
      return std::make_unique<MaxPoolLayer>(engine, *pool, shape, input, after_relu);
    }
    return std::make_unique<AveragePoolLayer>(engine, *pool, shape, input);
  }
  return std::make_unique<DropoutLayer>(engine, std::get<Dropout>(layer), shape, input, first_filter);
}

std::unique_ptr<OnednnLayer> make_onednn_activation_backward(OnednnEngine& engine, Activation activation,
                                                             const memory& output) {
  return std::make_unique<ActivationBackward>(engine, activation, output);
}

}  // namespace convoy
