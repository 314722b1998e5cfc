#include "kernels/onednn/engine.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "core/large_pages.hpp"
#include "kernels/host/matmul.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace convoy {

using dnnl::algorithm;
using dnnl::memory;

namespace {

/// Returns the number of channels in a block of the layout.
int block_of(memory::format_tag layout) {
  switch (layout) {
    case memory::format_tag::nChw16c: return 16;
    case memory::format_tag::nChw8c: return 8;
    case memory::format_tag::nChw4c: return 4;
    default: return 1;
  }
}

/// Returns whether oneDNN can view channels first .. first + count - 1 of maps without copying them.
bool shows_channels(const memory::desc& desc, const Shape& shape, int first, int count) {
  const int block = block_of(layout_of(desc, shape));
  return first % block == 0 && count % block == 0;
}

memory channels_of(const memory& maps, int first, int count) {
  memory::dims dims = onednn::dims_of(maps.get_desc());
  dims[1] = count;
  return {maps.get_desc().submemory_desc(dims, {0, first, 0, 0}), maps.get_engine(), maps.get_data_handle()};
}

memory zeros(const OnednnEngine& engine, const memory::desc& desc) {
  memory made = engine.make(desc);
  std::memset(made.get_data_handle(), 0, desc.get_size());
  return made;
}

}  // namespace

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
    reorders_.push_back({from.get_desc(), to.get_desc(), added, onednn::make_reorder(from, to, attributes)});
    known = reorders_.end() - 1;
  }
  std::unordered_map<int, memory> arguments = known->how.arguments;
  arguments[DNNL_ARG_FROM] = from;
  arguments[DNNL_ARG_TO] = to;
  run(known->how.primitive, arguments);
}

void OnednnEngine::run(const dnnl::primitive& primitive, const std::unordered_map<int, memory>& arguments) {
  primitive.execute(stream, arguments);
}

#if defined(__x86_64__)

// A comparison with NaN, and so the maximum in a ReLU, sets the flag "invalid operation" of the thread that computes
// it. The flag stays set until it is cleared, so that a look at it after the primitive costs nothing, unlike a look at
// the values. Other operations may set it, too; then the slower computation merely confirms the result.
bool OnednnEngine::run_relu(const dnnl::primitive& primitive, const std::unordered_map<int, memory>& arguments) {
#pragma omp parallel
  _mm_setcsr(_mm_getcsr() & ~static_cast<unsigned>(_MM_EXCEPT_INVALID));
  run(primitive, arguments);
  unsigned flags = 0;
#pragma omp parallel reduction(| : flags)
  flags |= _mm_getcsr();
  return (flags & _MM_EXCEPT_INVALID) == 0;
}

#else

// Other processors' comparisons leave no trace of NaN.
bool OnednnEngine::run_relu(const dnnl::primitive&, const std::unordered_map<int, memory>&) { return false; }

#endif

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

LanedMaps lanes_of(const memory::desc& desc, const Shape& shape) {
  const memory::format_tag layout = layout_of(desc, shape);
  if (layout == memory::format_tag::nhwc) return {shape.n, shape.h, shape.w, shape.c};
  const int block = block_of(layout);
  return {shape.n * ((shape.c + block - 1) / block), shape.h, shape.w, block};
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

/// Images whose layout is not the plain one are converted by the caller and write().
bool OnednnTensor::write_pixels(SampleRange samples, std::span<const std::uint8_t> pixels,
                                const Normaliser& normaliser) {
  const dnnl::memory to = samples_of(memory_, shape_, samples);
  const dnnl::memory::desc plain = plain_desc({samples.count, shape_.c, shape_.h, shape_.w});
  invariant(pixels.size_bytes() * sizeof(float) == plain.get_size(), "the pixels fill the samples");
  if (to.get_desc() != plain) return false;
  const auto map = static_cast<std::size_t>(shape_.h) * static_cast<std::size_t>(shape_.w);
  normaliser.normalise(pixels, {0, shape_.c}, map, static_cast<float*>(to.get_data_handle()));
  return true;
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

void OnednnTensor::take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                                 SampleRange samples) {
  engine_.use_threads();
  const auto& other = dynamic_cast<const OnednnTensor&>(from);
  const bool whole = channels.count == shape_.c && channels.count == other.shape_.c;
  const bool shown = shows_channels(other.memory_.get_desc(), other.shape_, channels.first, channels.count) &&
                     shows_channels(memory_.get_desc(), shape_, first, channels.count);
  if (!whole && !shown) return DeviceTensor::take_channels(from, channels, first, added, samples);
  const dnnl::memory source = samples_of(other.memory_, other.shape_, samples);
  const dnnl::memory target = samples_of(memory_, shape_, samples);
  engine_.reorder(whole ? source : channels_of(source, channels.first, channels.count),
                  whole ? target : channels_of(target, first, channels.count), added);
}

const memory& OnednnInlet::take(OnednnEngine& engine, const memory& from) {
  if (from.get_desc() == desc_) return from;
  if (!converted_) converted_ = engine.make(desc_);
  engine.reorder(from, converted_);
  return converted_;
}

OnednnEltwise onednn_eltwise(const Activation& activation) {
  switch (activation.kind) {
    case Activation::Kind::relu:
    case Activation::Kind::leaky_relu: return {algorithm::eltwise_relu, activation.alpha};
    case Activation::Kind::sigmoid: return {algorithm::eltwise_logistic};
    case Activation::Kind::tanh: return {algorithm::eltwise_tanh};
    case Activation::Kind::clip: return {algorithm::eltwise_clip, activation.alpha, activation.beta};
    case Activation::Kind::silu: return {algorithm::eltwise_swish, 1.0F};
    case Activation::Kind::gelu: return {algorithm::eltwise_gelu_erf};
    default: break;
  }
  invariant(false, "oneDNN computes the activation");
  return {algorithm::eltwise_relu};
}

bool joins_convolutions(const Activation& activation) {
  return loses_nan(activation) || activation.kind == Activation::Kind::sigmoid ||
         activation.kind == Activation::Kind::tanh;
}

bool loses_nan(const Activation& activation) {
  switch (activation.kind) {
    case Activation::Kind::relu:
    case Activation::Kind::leaky_relu:
    case Activation::Kind::clip: return true;
    default: return false;
  }
}

OnednnParameter::OnednnParameter(const OnednnEngine& engine, const memory::desc& desc, float factor, int count)
    : values(zeros(engine, desc)), rate(factor) {
  if (rate == 0.0F) return;
  for (int i = 0; i < count; ++i) moments.push_back(zeros(engine, desc));
  gradient = zeros(engine, desc);
}

bool OnednnParameter::update(const UpdateStep& step) const {
  if (!trained()) return finite();
  // The update runs on whole buffers: the layout does not matter, and padding stays zero because its gradient is zero.
  std::vector<float*> others;
  for (const memory& moment : moments) others.push_back(floats_of(moment));
  return update_parameter(with_rate(step, rate), std::span<const float>(floats_of(gradient), count_of(values)),
                          floats_of(values), others.data());
}

bool OnednnParameter::finite() const { return all_finite(std::span<const float>(floats_of(values), count_of(values))); }

float* floats_of(const memory& values) { return static_cast<float*>(values.get_data_handle()); }
std::size_t count_of(const memory& values) { return values.get_desc().get_size() / sizeof(float); }

Tensor read_list(const memory& from) {
  Tensor list({static_cast<int>(count_of(from)), 1});
  std::memcpy(list.data(), from.get_data_handle(), list.bytes());
  return list;
}

void write_list(const Tensor& from, const memory& to) { std::memcpy(to.get_data_handle(), from.data(), from.bytes()); }

Parameter OnednnParameter::list_to_host() const {
  Parameter host{read_list(values), {}};
  for (const memory& moment : moments) host.moments.push_back(read_list(moment));
  return host;
}

void OnednnParameter::take_list(const Parameter& from) const {
  invariant(from.value.size() == count_of(values), "the state has the shard's shape");
  write_list(from.value, values);
  for (std::size_t m = 0; m < moments.size(); ++m) write_list(from.moments.at(m), moments[m]);
}

}  // namespace convoy
