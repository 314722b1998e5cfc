// Descriptors of oneDNN's primitives and memories. This is the only file that knows whether oneDNN 2 or oneDNN 3 is
// there: version 2 wraps the arguments of a primitive into an operation descriptor, version 3 takes them directly and
// names the layouts of input and output separately.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "core/stage.hpp"

namespace convoy::onednn {

using dnnl::engine;
using dnnl::memory;

#if DNNL_VERSION_MAJOR >= 3

inline memory::dims dims_of(const memory::desc& desc) { return desc.get_dims(); }
inline memory::data_type type_of(const memory::desc& desc) { return desc.get_data_type(); }

/// Describes a primitive. `operation` holds what oneDNN's constructors take for it, in their order.
template <class Primitive, class... Operation>
typename Primitive::primitive_desc describe(const engine& on, const dnnl::primitive_attr& attributes,
                                            const Operation&... operation) {
  return {on, operation..., attributes};
}
/// Describes the backward pass that belongs to the primitive of `forward`.
template <class Primitive, class Forward, class... Operation>
typename Primitive::primitive_desc describe_backward(const engine& on, const Forward& forward,
                                                     const Operation&... operation) {
  return {on, operation..., forward};
}

#else

inline memory::dims dims_of(const memory::desc& desc) { return desc.dims(); }
inline memory::data_type type_of(const memory::desc& desc) { return desc.data_type(); }

template <class Primitive, class... Operation>
typename Primitive::primitive_desc describe(const engine& on, const dnnl::primitive_attr& attributes,
                                            const Operation&... operation) {
  return {typename Primitive::desc(operation...), attributes, on};
}
template <class Primitive, class Forward, class... Operation>
typename Primitive::primitive_desc describe_backward(const engine& on, const Forward& forward,
                                                     const Operation&... operation) {
  return {typename Primitive::desc(operation...), on, forward};
}

#endif

/// A reorder, and the arguments that it takes beside its source and its target.
struct Reordering {
  dnnl::reorder primitive;
  std::unordered_map<int, memory> arguments;
};

#if DNNL_VERSION_MAJOR >= 3

/// Whether the descriptor leaves out some of the memory between its elements, as one of some channels does.
inline bool is_view(const memory::desc& desc) {
  std::size_t bytes = memory::data_type_size(desc.get_data_type());
  for (const memory::dim extent : desc.get_padded_dims()) bytes *= static_cast<std::size_t>(extent);
  return desc.get_size() != bytes;
}

/// oneDNN 3.7 copies some channels of maps to others of the same layout wrongly where its implementation is
/// jit_direct_copy: many elements keep their old values. With a factor oneDNN takes another implementation.
inline Reordering make_reorder(const memory& from, const memory& to, dnnl::primitive_attr attributes) {
  const auto described = [&] {
    return dnnl::reorder::primitive_desc(from.get_engine(), from.get_desc(), to.get_engine(), to.get_desc(),
                                         attributes);
  };
  const dnnl::reorder::primitive_desc found = described();
  const bool copies = std::string_view(found.impl_info_str()).starts_with("jit_direct_copy");
  if (!copies || (!is_view(from.get_desc()) && !is_view(to.get_desc()))) return {dnnl::reorder(found), {}};
  attributes.set_scales_mask(DNNL_ARG_SRC, 0);
  memory one({{1}, memory::data_type::f32, memory::format_tag::a}, from.get_engine());
  *static_cast<float*>(one.get_data_handle()) = 1.0F;
  return {dnnl::reorder(described()), {{DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, one}}};
}

#else

inline Reordering make_reorder(const memory& from, const memory& to, const dnnl::primitive_attr& attributes) {
  return {dnnl::reorder(from, to, attributes), {}};
}

#endif

/// Appends an activation to what a primitive does to its result.
inline void append_activation(dnnl::post_ops& operations, dnnl::algorithm algorithm, float alpha, float beta) {
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(algorithm, alpha, beta);
#else
  operations.append_eltwise(1.0F, algorithm, alpha, beta);
#endif
}

// Primitives whose input, output and gradients all have the layout `maps`.

inline dnnl::eltwise_forward::primitive_desc describe_eltwise(const engine& on, dnnl::algorithm algorithm,
                                                              const memory::desc& maps, float alpha) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {on, kind, algorithm, maps, maps, alpha};
#else
  return {{kind, algorithm, maps, alpha}, on};
#endif
}

inline dnnl::eltwise_backward::primitive_desc describe_eltwise_backward(
    const engine& on, const dnnl::eltwise_forward::primitive_desc& forward, dnnl::algorithm algorithm,
    const memory::desc& maps, float alpha) {
#if DNNL_VERSION_MAJOR >= 3
  return {on, algorithm, maps, maps, maps, alpha, forward};
#else
  return {{algorithm, maps, maps, alpha}, on, forward};
#endif
}

inline dnnl::batch_normalization_forward::primitive_desc describe_batch_norm(const engine& on, dnnl::prop_kind kind,
                                                                             const memory::desc& maps, float epsilon,
                                                                             dnnl::normalization_flags flags) {
#if DNNL_VERSION_MAJOR >= 3
  return {on, kind, maps, maps, epsilon, flags};
#else
  return {{kind, maps, epsilon, flags}, on};
#endif
}

inline dnnl::batch_normalization_backward::primitive_desc describe_batch_norm_backward(
    const engine& on, const dnnl::batch_normalization_forward::primitive_desc& forward, const memory::desc& maps,
    float epsilon, dnnl::normalization_flags flags) {
  const auto kind = dnnl::prop_kind::backward;
#if DNNL_VERSION_MAJOR >= 3
  return {on, kind, maps, maps, maps, epsilon, flags, forward};
#else
  return {{kind, maps, maps, epsilon, flags}, on, forward};
#endif
}

/// oneDNN refuses to run a primitive with an argument too many or too few. Version 2 counts the shift of a batch norm
/// among the inputs of its backward pass, although it does not read it; version 3 does not.
inline constexpr bool kBatchNormBackwardCountsShift = DNNL_VERSION_MAJOR < 3;

inline dnnl::lrn_forward::primitive_desc describe_response_norm(const engine& on, const ResponseNorm& norm,
                                                                const memory::desc& maps) {
  const auto kind = dnnl::prop_kind::forward_training;
  const auto across = dnnl::algorithm::lrn_across_channels;
#if DNNL_VERSION_MAJOR >= 3
  return {on, kind, across, maps, maps, norm.size, norm.alpha, norm.beta, norm.k};
#else
  return {{kind, across, maps, norm.size, norm.alpha, norm.beta, norm.k}, on};
#endif
}

inline dnnl::lrn_backward::primitive_desc describe_response_norm_backward(
    const engine& on, const dnnl::lrn_forward::primitive_desc& forward, const ResponseNorm& norm,
    const memory::desc& maps) {
  const auto across = dnnl::algorithm::lrn_across_channels;
#if DNNL_VERSION_MAJOR >= 3
  return {on, across, maps, maps, maps, norm.size, norm.alpha, norm.beta, norm.k, forward};
#else
  return {{across, maps, maps, norm.size, norm.alpha, norm.beta, norm.k}, on, forward};
#endif
}

/// Average pooling over the places of the kernel that lie inside the map, or over all.
struct AveragePooling {
  explicit AveragePooling(const Pooling& pool)
      : strides{pool.stride_h, pool.stride_w},
        kernel{pool.kernel_h, pool.kernel_w},
        before{pool.pad.top, pool.pad.left},
        after{pool.pad.bottom, pool.pad.right},
        algorithm(pool.kind == PoolKind::average ? dnnl::algorithm::pooling_avg_exclude_padding
                                                 : dnnl::algorithm::pooling_avg_include_padding) {}

  memory::dims strides, kernel, before, after;
  dnnl::algorithm algorithm;
};

inline dnnl::pooling_forward::primitive_desc describe_pooling(const engine& on, const AveragePooling& pool,
                                                              const memory::desc& in, const memory::desc& out) {
  const auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {on, kind, pool.algorithm, in, out, pool.strides, pool.kernel, {0, 0}, pool.before, pool.after};
#else
  return {{kind, pool.algorithm, in, out, pool.strides, pool.kernel, pool.before, pool.after}, on};
#endif
}

inline dnnl::pooling_backward::primitive_desc describe_pooling_backward(
    const engine& on, const dnnl::pooling_forward::primitive_desc& forward, const AveragePooling& pool,
    const memory::desc& in) {
  const memory::desc out = forward.dst_desc();
#if DNNL_VERSION_MAJOR >= 3
  return {on, pool.algorithm, in, out, pool.strides, pool.kernel, {0, 0}, pool.before, pool.after, forward};
#else
  return {{pool.algorithm, in, out, pool.strides, pool.kernel, pool.before, pool.after}, on, forward};
#endif
}

}  // namespace convoy::onednn
