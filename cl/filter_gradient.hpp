// The filter gradient of a direct convolution on an OpenCL device.
#pragma once

#include "cl/shared.hpp"

namespace convoy {

/// Computes the gradient for a whole batch with Convoy's own kernels (filter_gradient.cl). Vectors run over output
/// columns or, where the tile says so, over filters; in the second case the gradient is transposed first.
class ClFilterGradient {
 public:
  /// Throws Error where the device has too little memory.
  ClFilterGradient(ClShared& shared, const ShardSpec& spec);

  /// `input` is the batch, packed for the forward pass; `gradient` is with respect to the convolution's output.
  void compute(const PackedMaps& input, const ClBuffer& gradient, const ClBuffer& weight_gradient);

 private:
  struct Laid {
    const ClBuffer& gradient;
    int columns;  ///< columns of a row, with padding
    // Distances, in elements, between samples, between filters (with vectors of filters, between their blocks) and
    // between rows.
    cl_ulong sample;
    cl_ulong filter;
    int row;
  };

  int taps() const { return in_.c * kernel_h_ * kernel_w_; }
  int tap_groups() const;
  int filter_blocks() const { return blocks(out_.c, kernels_.tile.filters); }
  void make_slices(const std::string& what);
  /// Returns the gradient in the layout that the kernel reads.
  Laid lay(const ClBuffer& gradient);

  ClShared& shared_;
  Shape in_;
  Shape out_;
  int kernel_h_;
  int kernel_w_;
  FilterGradientKernels kernels_;
  std::optional<PackedMaps> padded_;  ///< padded copy of the gradient, where its rows are not whole vectors
  ClBuffer side_by_side_;             ///< transposed copy of the gradient, for vectors of filters
  int slices_ = 1;                    ///< slices of the batch
  ClBuffer weight_slices_;
};

}  // namespace convoy
