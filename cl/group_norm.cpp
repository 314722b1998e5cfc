// Group norm on an OpenCL device.

#include "cl/convolution.hpp"

namespace convoy {
namespace {

class ClGroupNorm : public ClConvolution {
 public:
  ClGroupNorm(ClShared& shared, const ShardSpec& spec)
      : shared_(shared),
        kernels_(shared.group_norm_kernels(spec.stage.group_norm.by_position).timed_apart()),
        epsilon_(spec.stage.group_norm.epsilon),
        channels_(spec.stage.channels),
        filters_(spec.filters),
        read_(channels_for(spec.stage, spec.filters)),
        size_(spec.stage.channels / spec.stage.group_norm.groups),
        groups_(read_.count / size_),
        places_(spec.stage.height * spec.stage.width),
        sets_{spec.batch, groups_, 1, spec.stage.group_norm.by_position ? places_ : 1} {
    const std::string what = "stage " + spec.stage.name + ": statistics of groups";
    for (ClBuffer* each : {&mean_, &inverse_, &sums_, &products_}) {
      *each = shared.context.allocate(sets_.size() * sizeof(float), what);
    }
  }

  void forward(const ClBuffer& input, const ClBuffer&, const ClBuffer&, int, const ClBuffer& maps,
               SampleRange samples) override {
    input_ = &input;
    shared_.launch_over_maps(kernels_.set_moments, sets_, samples, input, mean_, inverse_, channels_, read_.first,
                             groups_, size_, epsilon_, places_);
    shared_.launch_over_maps(kernels_.normalise, maps_of(filters_.count), samples, input, mean_, inverse_, maps,
                             channels_, filters_.first, filters_.count, read_.first, groups_, size_, places_);
  }
  void input_gradient(const ClBuffer& gradient, const ClBuffer&, const ClBuffer& input_gradient,
                      SampleRange samples) override {
    shared_.launch_over_maps(kernels_.set_slopes, sets_, samples, *input_, gradient, mean_, inverse_, sums_, products_,
                             channels_, filters_.first, filters_.count, read_.first, groups_, size_, places_);
    shared_.launch_over_maps(kernels_.gradient, maps_of(channels_), samples, *input_, gradient, mean_, inverse_, sums_,
                             products_, input_gradient, channels_, filters_.first, filters_.count, read_.first, groups_,
                             size_, places_);
  }
  void filter_gradient(const ClBuffer&, const ClBuffer&, const ClBuffer&) override {}

 private:
  /// Returns the shape of maps whose places the kernels take as one row.
  Shape maps_of(int channels) const { return {sets_.n, channels, 1, places_}; }

  ClShared& shared_;
  GroupNormKernels kernels_;
  float epsilon_;
  int channels_;         ///< of the input
  FilterRange filters_;  ///< the shard's channels
  FilterRange read_;     ///< all channels of the groups in which the shard has channels
  int size_;             ///< channels of a group
  int groups_;           ///< number of groups in which the shard has channels
  int places_;
  Shape sets_;  ///< a value for each part of a sample that has a mean and a variance of its own
  ClBuffer mean_, inverse_, sums_, products_;
  const ClBuffer* input_ = nullptr;  ///< of the last forward
};

}  // namespace

std::unique_ptr<ClConvolution> make_cl_group_norm(ClShared& shared, const ShardSpec& spec) {
  return std::make_unique<ClGroupNorm>(shared, spec);
}

}  // namespace convoy
