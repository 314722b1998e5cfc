// The filter gradient of a direct convolution on an OpenCL device.
#pragma once

#include "cl/shared.hpp"

namespace convoy {

/// Of a whole batch, by kernels of our own (filter_gradient.cl): vectors of output columns, or, where the tile says so, of
/// filters, whose gradients are brought side by side first.
class ClFilterGradient {
 public:
  /// `kernels`: of the convolution's forward pass. Throws Error where the device has no room.
  ClFilterGradient(ClShared& shared, const ShardSpec& spec, const ConvolutionKernels& kernels);

  /// `input`: the batch, packed for the forward pass; `gradient`: by the convolution's output.
  void compute(const PackedMaps& input, const ClBuffer& gradient, const ClBuffer& weight_gradient);

 private:
  struct Laid {
    const ClBuffer& gradient;
    int columns;  ///< of a row, with those that pad it
    // Elements from one sample, filter (by filters: block of them) and row to the next.
    cl_ulong sample;
    cl_ulong filter;
    int row;
  };

  int taps() const { return in_.c * kernel_h_ * kernel_w_; }
  int tap_groups() const;
  int filter_blocks() const { return blocks(out_.c, kernels_.tile.gradient_filters); }
  void make_slices(const std::string& what);
  /// The gradient as the kernel takes it.
  Laid lay(const ClBuffer& gradient);

  ClShared& shared_;
  Shape in_;
  Shape out_;
  int kernel_h_;
  int kernel_w_;
  ConvolutionKernels kernels_;
  std::optional<PackedMaps> padded_;  ///< the gradient, where its rows are no whole vectors
  ClBuffer side_by_side_;             ///< the gradient, for vectors of filters
  int slices_ = 1;                    ///< of the batch
  ClBuffer weight_slices_;
};

}  // namespace convoy
