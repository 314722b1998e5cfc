// Maps of other rows and columns on an OpenCL device.

#include <bit>

#include "cl/convolution.hpp"
#include "kernels/host/axis_tables.hpp"

namespace convoy {
namespace {

/// AxisTables in the device's memory.
struct ClAxis {
  ClBuffer first, second, weight, begin, end;

  ClAxis(ClContext& context, const AxisTables& tables, const std::string& what)
      : first(of_ints(context, tables.first, what)),
        second(of_ints(context, tables.second, what)),
        weight(of_floats(context, tables.weight, what)),
        begin(of_ints(context, tables.begin, what)),
        end(of_ints(context, tables.end, what)) {}

 private:
  static ClBuffer of_floats(ClContext& context, const std::vector<float>& values, const std::string& what) {
    ClBuffer buffer = context.allocate(values.size() * sizeof(float), what);
    context.write(buffer, 0, values);
    return buffer;
  }
  static ClBuffer of_ints(ClContext& context, const std::vector<int>& values, const std::string& what) {
    std::vector<float> bits;
    for (const int value : values) bits.push_back(std::bit_cast<float>(value));
    return of_floats(context, bits, what);
  }
};

class ClResizing : public ClConvolution {
 public:
  ClResizing(ClShared& shared, const ShardSpec& spec)
      : ClResizing(shared, spec, "stage " + spec.stage.name + ": places of resized maps") {}

  void forward(const ClBuffer& input, const ClBuffer&, const ClBuffer&, int, const ClBuffer& maps,
               SampleRange samples) override {
    shared_.launch_over_maps(kernels_.resize, out_, samples, input, maps, rows_.first, rows_.second, rows_.weight,
                             columns_.first, columns_.second, columns_.weight, in_.c, first_, out_.c, linear_ ? 1 : 0,
                             in_.h, in_.w, out_.h, out_.w);
  }
  void input_gradient(const ClBuffer& gradient, const ClBuffer&, const ClBuffer& input_gradient,
                      SampleRange samples) override {
    shared_.launch_over_maps(kernels_.gradient, in_, samples, gradient, input_gradient, rows_.first, rows_.second,
                             rows_.weight, columns_.first, columns_.second, columns_.weight, rows_.begin, rows_.end,
                             columns_.begin, columns_.end, in_.c, first_, out_.c, in_.h, in_.w, out_.h, out_.w);
  }
  void filter_gradient(const ClBuffer&, const ClBuffer&, const ClBuffer&) override {}

 private:
  ClResizing(ClShared& shared, const ShardSpec& spec, const std::string& what)
      : shared_(shared),
        kernels_(shared.resize_kernels()),
        linear_(spec.stage.resizing.mode == Resizing::Mode::linear),
        first_(spec.filters.first),
        in_(input_shape(spec.stage, spec.batch)),
        out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
        rows_(shared.context, {spec.stage.resizing.mode, spec.stage.resizing.rows, in_.h}, what),
        columns_(shared.context, {spec.stage.resizing.mode, spec.stage.resizing.columns, in_.w}, what) {
    // The cost of a work-item depends on the factor.
    for (ClKernel* kernel : {&kernels_.resize, &kernels_.gradient}) *kernel = kernel->timed_apart();
  }

  ClShared& shared_;
  ResizeKernels kernels_;
  bool linear_;
  int first_;  ///< the first of the shard's channels
  Shape in_;
  Shape out_;
  ClAxis rows_;
  ClAxis columns_;
};

}  // namespace

std::unique_ptr<ClConvolution> make_cl_resizing(ClShared& shared, const ShardSpec& spec) {
  return std::make_unique<ClResizing>(shared, spec);
}

}  // namespace convoy
