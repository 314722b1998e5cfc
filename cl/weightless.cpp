// Stages without weights on an OpenCL device: the identity, a shuffle of channels and response norm. Others have
// sources of their own.

#include "cl/convolution.hpp"

namespace convoy {
namespace {

/// The maps of a stage of kind `channels` or `shuffle`, which are channels of the input. The channels of the input
/// gradient that the shard does not read stay zero, as they were allocated.
class ClPassing : public ClConvolution {
 public:
  ClPassing(ClShared& shared, const ShardSpec& spec)
      : shared_(shared),
        stage_(spec.stage),
        filters_(spec.filters),
        maps_(conv_shape(spec.stage, spec.batch, spec.filters.count)) {
    if (stage_.kind == StageKind::shuffle) shuffle_ = shared.channel_kernels().shuffle_channels;
  }

  void forward(const ClBuffer& input, const ClBuffer&, const ClBuffer&, int, const ClBuffer& maps,
               SampleRange samples) override {
    pass(input, maps, false, samples);
  }
  void input_gradient(const ClBuffer& gradient, const ClBuffer&, const ClBuffer& input_gradient,
                      SampleRange samples) override {
    pass(gradient, input_gradient, true, samples);
  }
  void filter_gradient(const ClBuffer&, const ClBuffer&, const ClBuffer&) override {}

 private:
  void pass(const ClBuffer& from, const ClBuffer& to, bool back, SampleRange samples) {
    if (stage_.kind == StageKind::shuffle) {
      shared_.launch_over_maps(shuffle_, maps_, samples, from, to, maps_.c, stage_.channels, filters_.first,
                               stage_.shuffle, back ? 1 : 0, maps_.h, maps_.w);
      return;
    }
    const ClChannels all{stage_.channels, filters_.first};
    const ClChannels own{maps_.c, 0};
    shared_.take_channels(from, back ? own : all, to, back ? all : own, maps_, false, samples);
  }

  ClShared& shared_;
  ClKernel shuffle_;  ///< of a shuffle
  Stage stage_;
  FilterRange filters_;
  Shape maps_;
};

class ClResponseNorm : public ClConvolution {
 public:
  ClResponseNorm(ClShared& shared, const ShardSpec& spec)
      : shared_(shared),
        kernels_(shared.channel_kernels()),
        norm_(spec.stage.norm),
        first_(spec.filters.first),
        in_(input_shape(spec.stage, spec.batch)),
        out_(conv_shape(spec.stage, spec.batch, spec.filters.count)) {
    // The cost of a work-item depends on the window.
    for (ClKernel* kernel : {&kernels_.normalise_response, &kernels_.response_parts, &kernels_.response_gradient}) {
      *kernel = kernel->timed_apart();
    }
    const std::string what = "stage " + spec.stage.name + ": response norm";
    bases_ = shared.context.allocate(out_.size() * sizeof(float), what);
    if (spec.input_gradient) parts_ = shared.context.allocate(out_.size() * sizeof(float), what);
  }

  void forward(const ClBuffer& input, const ClBuffer&, const ClBuffer&, int, const ClBuffer& maps,
               SampleRange samples) override {
    input_ = &input;
    shared_.launch_over_maps(kernels_.normalise_response, out_, samples, input, maps, bases_, out_.c, in_.c, first_,
                             norm_.size, norm_.alpha / static_cast<float>(norm_.size), norm_.k, norm_.beta, out_.h,
                             out_.w);
  }
  void input_gradient(const ClBuffer& gradient, const ClBuffer&, const ClBuffer& input_gradient,
                      SampleRange samples) override {
    const float factor = -2.0F * norm_.alpha * norm_.beta / static_cast<float>(norm_.size);
    shared_.launch_over_maps(kernels_.response_parts, out_, samples, *input_, gradient, bases_, parts_, out_.c, in_.c,
                             first_, factor, norm_.beta, out_.h, out_.w);
    shared_.launch_over_maps(kernels_.response_gradient, in_, samples, *input_, gradient, bases_, parts_,
                             input_gradient, out_.c, in_.c, first_, norm_.size, norm_.beta, out_.h, out_.w);
  }
  void filter_gradient(const ClBuffer&, const ClBuffer&, const ClBuffer&) override {}

 private:
  ClShared& shared_;
  ChannelKernels kernels_;
  ResponseNorm norm_;
  int first_;
  Shape in_;
  Shape out_;
  ClBuffer bases_;                   ///< the numbers that the last forward raised to the power of -beta
  ClBuffer parts_;                   ///< scratch memory of the backward pass
  const ClBuffer* input_ = nullptr;  ///< of the last forward
};

}  // namespace

std::unique_ptr<ClConvolution> make_cl_weightless(ClShared& shared, const ShardSpec& spec) {
  switch (spec.stage.kind) {
    case StageKind::response_norm: return std::make_unique<ClResponseNorm>(shared, spec);
    case StageKind::group_norm: return make_cl_group_norm(shared, spec);
    case StageKind::resize: return make_cl_resizing(shared, spec);
    default: return std::make_unique<ClPassing>(shared, spec);
  }
}

}  // namespace convoy
