#include <omp.h>

#include "bench/bare_convolution.hpp"
#include "kernels/onednn/api.hpp"

namespace convoy {
namespace {

using dnnl::algorithm;
using dnnl::memory;

memory::dims dims(const Shape& s) { return {s.n, s.c, s.h, s.w}; }
memory::desc desc(const Shape& s, memory::format_tag layout) { return {dims(s), memory::data_type::f32, layout}; }

class Bare : public BareConvolution {
 public:
  Bare(const Stage& stage, int filters, int batch, int threads, memory::format_tag layout) : threads_(threads) {
    omp_set_num_threads(threads);
    const Convolution& conv = stage.conv;
    const memory::desc in = desc(input_shape(stage, batch), layout);
    const Shape weight = weight_shape(stage, filters);
    memory::dims weight_dims = dims(weight);
    if (conv.groups > 1) weight_dims = {conv.groups, weight.n / conv.groups, weight.c, weight.h, weight.w};
    const memory::desc weights(weight_dims, memory::data_type::f32, memory::format_tag::any);
    const memory::desc bias({filters}, memory::data_type::f32, memory::format_tag::x);
    const memory::desc out = desc(conv_shape(stage, batch, filters), layout);
    const memory::dims strides{conv.stride_h, conv.stride_w};
    const memory::dims gaps{conv.dilation_h - 1, conv.dilation_w - 1};
    const memory::dims before{conv.pad.top, conv.pad.left};
    const memory::dims after{conv.pad.bottom, conv.pad.right};
    const auto direct = algorithm::convolution_direct;
    const auto forward = onednn::describe<dnnl::convolution_forward>(
        engine_, {}, dnnl::prop_kind::forward_training, direct, in, weights, bias, out, strides, gaps, before, after);
    const auto data = onednn::describe_backward<dnnl::convolution_backward_data>(engine_, forward, direct, in, weights,
                                                                                 out, strides, gaps, before, after);
    const auto filter = onednn::describe_backward<dnnl::convolution_backward_weights>(
        engine_, forward, direct, in, weights, bias, out, strides, gaps, before, after);
    forward_ = {dnnl::convolution_forward(forward),
                {{DNNL_ARG_SRC, filled(forward.src_desc())},
                 {DNNL_ARG_WEIGHTS, filled(forward.weights_desc())},
                 {DNNL_ARG_BIAS, filled(bias)},
                 {DNNL_ARG_DST, filled(forward.dst_desc())}}};
    data_ = {dnnl::convolution_backward_data(data),
             {{DNNL_ARG_DIFF_DST, filled(data.diff_dst_desc())},
              {DNNL_ARG_WEIGHTS, filled(data.weights_desc())},
              {DNNL_ARG_DIFF_SRC, filled(data.diff_src_desc())}}};
    filter_ = {dnnl::convolution_backward_weights(filter),
               {{DNNL_ARG_SRC, filled(filter.src_desc())},
                {DNNL_ARG_DIFF_DST, filled(filter.diff_dst_desc())},
                {DNNL_ARG_DIFF_WEIGHTS, filled(filter.diff_weights_desc())},
                {DNNL_ARG_DIFF_BIAS, filled(bias)}}};
  }

  void forward() override { run(forward_); }
  void input_gradient() override { run(data_); }
  void filter_gradient() override { run(filter_); }

 private:
  struct Pass {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> arguments;
  };

  memory filled(const memory::desc& desc) {
    memory made(desc, engine_);
    auto* values = static_cast<float*>(made.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i) values[i] = 0.001F * static_cast<float>(i % 977);
    return made;
  }
  void run(Pass& pass) {
    omp_set_num_threads(threads_);
    pass.primitive.execute(stream_, pass.arguments);
  }

  int threads_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Pass forward_;
  Pass data_;
  Pass filter_;
};

}  // namespace

BareLayouts make_bare_convolutions(const Stage& stage, int filters, int batch, int threads) {
  BareLayouts made;
  made.push_back(std::make_unique<Bare>(stage, filters, batch, threads, memory::format_tag::any));
  // With very few channels in this layout oneDNN computes some passes with its slow reference kernels.
  if (stage.channels >= 16) {
    made.push_back(std::make_unique<Bare>(stage, filters, batch, threads, memory::format_tag::nhwc));
  }
  return made;
}

}  // namespace convoy
