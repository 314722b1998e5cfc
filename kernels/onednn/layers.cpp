// Channel layers in oneDNN's layouts.

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "core/large_pages.hpp"
#include "kernels/host/dropout.hpp"
#include "kernels/host/max_pool.hpp"
#include "kernels/onednn/engine.hpp"

namespace convoy {

using dnnl::algorithm;
using dnnl::memory;

void OnednnEngine::use_threads() const { omp_set_num_threads(threads); }

memory OnednnEngine::make(const memory::desc& desc) const {
  memory made(desc, engine);
  prefer_large_pages(made.get_data_handle(), desc.get_size());
  return made;
}

memory OnednnEngine::make_gradient(const memory::desc& desc, bool keep) const {
  return keep ? make(desc) : memory(desc, engine, nullptr);
}

void OnednnEngine::share(memory& gradient) {
  const std::size_t bytes = gradient.get_desc().get_size();
  if (!shared_ || shared_.get_desc().get_size() < bytes) {
    shared_ = make({{static_cast<memory::dim>(bytes)}, memory::data_type::u8, memory::format_tag::a});
  }
  gradient.set_data_handle(shared_.get_data_handle());
}

float* OnednnEngine::scratch(std::size_t floats) {
  if (!scratch_ || scratch_.get_desc().get_size() < floats * sizeof(float)) {
    scratch_ = make({{static_cast<memory::dim>(floats)}, memory::data_type::f32, memory::format_tag::a});
  }
  return static_cast<float*>(scratch_.get_data_handle());
}

void OnednnEngine::reorder(const memory& from, const memory& to, bool added) {
  use_threads();
  const auto fits = [&, source = from.get_desc(), target = to.get_desc()](const Reorder& known) {
    return known.added == added && known.from == source && known.to == target;
  };
  auto known = std::ranges::find_if(reorders_, fits);
  if (known == reorders_.end()) {
    dnnl::primitive_attr attributes;
    if (added) {
      dnnl::post_ops operations;
      operations.append_sum();
      attributes.set_post_ops(operations);
    }
    reorders_.push_back({from.get_desc(), to.get_desc(), added, dnnl::reorder(from, to, attributes)});
    known = reorders_.end() - 1;
  }
  run(known->primitive, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void OnednnEngine::run(const dnnl::primitive& primitive, const std::unordered_map<int, memory>& arguments) {
  primitive.execute(stream, arguments);
}

memory::dims dims_of(const Shape& shape) { return {shape.n, shape.c, shape.h, shape.w}; }

memory::desc plain_desc(const Shape& shape) {
  return {dims_of(shape), memory::data_type::f32, memory::format_tag::nchw};
}

memory::desc desc_of(const Shape& shape, memory::format_tag layout, memory::data_type type) {
  return {dims_of(shape), type, layout};
}

memory::format_tag layout_of(const memory::desc& desc, const Shape& shape) {
  using Tag = memory::format_tag;
  // These are all layouts that oneDNN uses on CPUs.
  for (const Tag tag : {Tag::nhwc, Tag::nChw16c, Tag::nChw8c, Tag::nChw4c}) {
    if (desc == desc_of(shape, tag, onednn::type_of(desc))) return tag;
  }
  invariant(desc == desc_of(shape, Tag::nchw, onednn::type_of(desc)), "maps are channels-last, blocked or plain");
  return Tag::nchw;
}

memory::desc with_samples(const memory::desc& desc, const Shape& shape, int samples) {
  return desc_of({samples, shape.c, shape.h, shape.w}, layout_of(desc, shape), onednn::type_of(desc));
}

memory samples_of(const memory& maps, const Shape& shape, SampleRange samples) {
  if (samples.count == shape.n) return maps;
  const memory::desc desc = maps.get_desc();
  const std::size_t sample = desc.get_size() / static_cast<std::size_t>(shape.n);
  auto* data = static_cast<std::byte*>(maps.get_data_handle()) + static_cast<std::size_t>(samples.first) * sample;
  return {with_samples(desc, shape, samples.count), maps.get_engine(), data};
}

void OnednnTensor::write(SampleRange samples, std::span<const float> values) {
  const dnnl::memory to = samples_of(memory_, shape_, samples);
  const dnnl::memory::desc plain = plain_desc({samples.count, shape_.c, shape_.h, shape_.w});
  invariant(values.size_bytes() == plain.get_size(), "the values fill the samples");
  if (to.get_desc() == plain) {
    std::memcpy(to.get_data_handle(), values.data(), values.size_bytes());
    return;
  }
  engine_.reorder(dnnl::memory(plain, engine_.engine, const_cast<float*>(values.data())), to);
}

void OnednnTensor::read(SampleRange samples, std::span<float> values) const {
  const dnnl::memory from = samples_of(memory_, shape_, samples);
  const dnnl::memory::desc plain = plain_desc({samples.count, shape_.c, shape_.h, shape_.w});
  invariant(values.size_bytes() == plain.get_size(), "the values fill the samples");
  if (from.get_desc() == plain) {
    std::memcpy(values.data(), from.get_data_handle(), values.size_bytes());
    return;
  }
  engine_.reorder(from, dnnl::memory(plain, engine_.engine, values.data()));
}

const memory& OnednnInlet::take(OnednnEngine& engine, const memory& from) {
  if (from.get_desc() == desc_) return from;
  if (!converted_) converted_ = engine.make(desc_);
  engine.reorder(from, converted_);
  return converted_;
}

algorithm onednn_algorithm(const Activation& activation) {
  switch (activation.kind) {
    case Activation::Kind::relu:
    case Activation::Kind::leaky_relu: return algorithm::eltwise_relu;
    case Activation::Kind::sigmoid: return algorithm::eltwise_logistic;
    case Activation::Kind::tanh: return algorithm::eltwise_tanh;
  }
  return algorithm::eltwise_relu;
}

namespace {

/// Returns the algorithm that computes an activation's derivative from its output.
algorithm backward_algorithm(const Activation& activation) {
  switch (activation.kind) {
    case Activation::Kind::relu:
    case Activation::Kind::leaky_relu: return algorithm::eltwise_relu_use_dst_for_bwd;
    case Activation::Kind::sigmoid: return algorithm::eltwise_logistic_use_dst_for_bwd;
    case Activation::Kind::tanh: return algorithm::eltwise_tanh_use_dst_for_bwd;
  }
  return algorithm::eltwise_relu_use_dst_for_bwd;
}

class ActivationBackward : public OnednnLayer {
 public:
  ActivationBackward(OnednnEngine& engine, const Activation& activation, const Shape& shape, int micro_batch,
                     const memory& output)
      : engine_(engine), shape_(shape), output_(output), input_gradient_(engine.make(output.get_desc())) {
    const memory::desc desc = with_samples(output.get_desc(), shape, micro_batch);
    const algorithm by_output = backward_algorithm(activation);
    const auto forward = onednn::describe_eltwise(engine.engine, by_output, desc, activation.slope);
    backward_ = dnnl::eltwise_backward(
        onednn::describe_eltwise_backward(engine.engine, forward, by_output, desc, activation.slope));
    gradient_ = OnednnInlet(desc);
  }

  void forward(const Pass&, SampleRange) override {}
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    engine_.run(backward_, {{DNNL_ARG_DST, samples_of(output_, shape_, samples)},
                            {DNNL_ARG_DIFF_DST, gradient_.take(engine_, gradient)},
                            {DNNL_ARG_DIFF_SRC, samples_of(input_gradient_, shape_, samples)}});
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 protected:
  OnednnEngine& engine_;
  Shape shape_;
  memory output_;

 private:
  OnednnInlet gradient_;
  memory input_gradient_;
  dnnl::eltwise_backward backward_;
};

class ActivationLayer : public ActivationBackward {
 public:
  ActivationLayer(OnednnEngine& engine, const Activation& activation, const Shape& shape, int micro_batch,
                  const memory& input)
      : ActivationBackward(engine, activation, shape, micro_batch, engine.make(input.get_desc())), input_(input) {
    const memory::desc desc = with_samples(input.get_desc(), shape, micro_batch);
    forward_ = dnnl::eltwise_forward(
        onednn::describe_eltwise(engine.engine, onednn_algorithm(activation), desc, activation.slope));
  }
  void forward(const Pass&, SampleRange samples) override {
    engine_.run(forward_, {{DNNL_ARG_SRC, samples_of(input_, shape_, samples)},
                           {DNNL_ARG_DST, samples_of(output_, shape_, samples)}});
  }

 private:
  memory input_;
  dnnl::eltwise_forward forward_;
};

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

/// A max pooling 1.3 to 3 times as fast as that of oneDNN 2.6, which also includes the derivative of a ReLU before it.
class MaxPoolLayer : public OnednnLayer {
 public:
  MaxPoolLayer(OnednnEngine& engine, const Pooling& pool, const Shape& shape, int micro_batch, const memory& input,
               bool after_relu)
      : engine_(engine),
        shape_(shape),
        pooled_(pooled_shape(pool, shape)),
        input_(input),
        after_relu_(after_relu),
        pool_(pool, lanes_of(layout_of(input.get_desc(), shape), {micro_batch, shape.c, shape.h, shape.w})),
        output_(engine.make(desc_of(pooled_, layout_of(input.get_desc(), shape)))),
        input_gradient_(engine.make(input.get_desc())),
        gradient_(with_samples(output_.get_desc(), pooled_, micro_batch)),
        places_(output_.get_desc().get_size() / sizeof(float)) {}

  void forward(const Pass&, SampleRange samples) override {
    pool_.forward(values_of(samples_of(input_, shape_, samples)), after_relu_,
                  values_of(samples_of(output_, pooled_, samples)), places_of(samples));
  }
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    pool_.backward(values_of(gradient_.take(engine_, gradient)), places_of(samples),
                   values_of(samples_of(input_gradient_, shape_, samples)));
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 private:
  PoolPlace* places_of(SampleRange samples) {
    const std::size_t sample = places_.size() / static_cast<std::size_t>(pooled_.n);
    return places_.data() + static_cast<std::size_t>(samples.first) * sample;
  }

  OnednnEngine& engine_;
  Shape shape_;
  Shape pooled_;
  memory input_;
  bool after_relu_;
  MaxPool pool_;  ///< of one micro-batch
  memory output_;
  memory input_gradient_;
  OnednnInlet gradient_;
  std::vector<PoolPlace> places_;
};

class AveragePoolLayer : public OnednnLayer {
 public:
  AveragePoolLayer(OnednnEngine& engine, const Pooling& pool, const Shape& shape, int micro_batch, const memory& input)
      : engine_(engine), shape_(shape), pooled_(pooled_shape(pool, shape)), input_(input) {
    const onednn::AveragePooling average(pool);
    const memory::desc in = with_samples(input.get_desc(), shape, micro_batch);
    Shape out = pooled_;
    out.n = micro_batch;
    const auto forward = onednn::describe_pooling(engine.engine, average, in, desc_of(out, memory::format_tag::any));
    forward_ = dnnl::pooling_forward(forward);
    backward_ = dnnl::pooling_backward(onednn::describe_pooling_backward(engine.engine, forward, average, in));
    output_ = engine.make(with_samples(forward.dst_desc(), out, shape.n));
    input_gradient_ = engine.make(input.get_desc());
    gradient_ = OnednnInlet(forward.dst_desc());
  }

  void forward(const Pass&, SampleRange samples) override {
    engine_.run(forward_, {{DNNL_ARG_SRC, samples_of(input_, shape_, samples)},
                           {DNNL_ARG_DST, samples_of(output_, pooled_, samples)}});
  }
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    engine_.run(backward_, {{DNNL_ARG_DIFF_DST, gradient_.take(engine_, gradient)},
                            {DNNL_ARG_DIFF_SRC, samples_of(input_gradient_, shape_, samples)}});
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 private:
  OnednnEngine& engine_;
  Shape shape_;
  Shape pooled_;
  memory input_;
  memory output_;
  memory input_gradient_;
  OnednnInlet gradient_;
  dnnl::pooling_forward forward_;
  dnnl::pooling_backward backward_;
};

class DropoutLayer : public OnednnLayer {
 public:
  DropoutLayer(OnednnEngine& engine, const Dropout& dropout, const Shape& shape, int micro_batch, const memory& input,
               int first_filter)
      : engine_(engine),
        dropout_(dropout),
        first_filter_(first_filter),
        shape_(shape),
        input_(input),
        output_(engine.make(input.get_desc())),
        plain_(shape),
        scale_(engine.make(input.get_desc())),
        gradient_(with_samples(input.get_desc(), shape, micro_batch)),
        input_gradient_(engine.make(input.get_desc())) {
    const memory::desc& desc = gradient_.desc();
    multiply_ =
        dnnl::binary(onednn::describe<dnnl::binary>(engine.engine, {}, algorithm::binary_mul, desc, desc, desc));
  }

  void forward(const Pass& pass, SampleRange samples) override {
    draw_dropout_mask(dropout_, pass, first_filter_, samples, plain_);
    const memory plain(plain_desc(shape_), engine_.engine, plain_.data());
    engine_.reorder(samples_of(plain, shape_, samples), samples_of(scale_, shape_, samples));
    multiply(samples_of(input_, shape_, samples), output_, samples);
  }
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    multiply(gradient_.take(engine_, gradient), input_gradient_, samples);
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 private:
  void multiply(const memory& from, const memory& to, SampleRange samples) {
    engine_.run(multiply_, {{DNNL_ARG_SRC_0, from},
                            {DNNL_ARG_SRC_1, samples_of(scale_, shape_, samples)},
                            {DNNL_ARG_DST, samples_of(to, shape_, samples)}});
  }

  OnednnEngine& engine_;
  Dropout dropout_;
  int first_filter_;
  Shape shape_;
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
                                               int micro_batch, const memory& input, int first_filter,
                                               bool after_relu) {
  if (const auto* activation = std::get_if<Activation>(&layer)) {
    return std::make_unique<ActivationLayer>(engine, *activation, shape, micro_batch, input);
  }
  if (const auto* pool = std::get_if<Pooling>(&layer)) {
    if (pool->kind == PoolKind::max) {
      return std::make_unique<MaxPoolLayer>(engine, *pool, shape, micro_batch, input, after_relu);
    }
    return std::make_unique<AveragePoolLayer>(engine, *pool, shape, micro_batch, input);
  }
  return std::make_unique<DropoutLayer>(engine, std::get<Dropout>(layer), shape, micro_batch, input, first_filter);
}

std::unique_ptr<OnednnLayer> make_onednn_activation_backward(OnednnEngine& engine, const Activation& activation,
                                                             const Shape& shape, int micro_batch,
                                                             const memory& output) {
  return std::make_unique<ActivationBackward>(engine, activation, shape, micro_batch, output);
}

}  // namespace convoy
