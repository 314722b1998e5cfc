// Sums and slices of maps in oneDNN's layouts.

#include "kernels/onednn/engine.hpp"

namespace convoy {

using dnnl::algorithm;
using dnnl::memory;

namespace {

class AddLayer : public OnednnAdd {
 public:
  AddLayer(OnednnEngine& engine, const Shape& shape, int micro_batch, const memory& input)
      : engine_(engine),
        shape_(shape),
        input_(input),
        output_(engine.make(input.get_desc())),
        input_gradient_(engine.make(input.get_desc())),
        inlet_(with_samples(input.get_desc(), shape, micro_batch)) {
    const memory::desc& desc = inlet_.desc();
    add_ = dnnl::binary(onednn::describe<dnnl::binary>(engine.engine, {}, algorithm::binary_add, desc, desc, desc));
  }

  void connect(const memory& added) override { added_ = added; }
  void forward(const Pass&, SampleRange samples) override {
    invariant(static_cast<bool>(added_), "connect is called before forward");
    engine_.run(add_, {{DNNL_ARG_SRC_0, samples_of(input_, shape_, samples)},
                       {DNNL_ARG_SRC_1, inlet_.take(engine_, samples_of(added_, shape_, samples))},
                       {DNNL_ARG_DST, samples_of(output_, shape_, samples)}});
  }
  const memory& output() const override { return output_; }
  void backward(const memory& gradient, SampleRange samples) override {
    engine_.reorder(gradient, samples_of(input_gradient_, shape_, samples));
  }
  const memory& input_gradient() const override { return input_gradient_; }
  const Shape& input_shape() const override { return shape_; }

 private:
  OnednnEngine& engine_;
  Shape shape_;
  memory input_;
  memory added_;
  memory output_;
  memory input_gradient_;
  OnednnInlet inlet_;
  dnnl::binary add_;
};

/// Returns whether oneDNN can view channels first .. first + count - 1 of maps without copying them.
bool shows_channels(const memory::desc& desc, const Shape& shape, int first, int count) {
  const memory::format_tag layout = layout_of(desc, shape);
  const int block = layout == memory::format_tag::nChw16c  ? 16
                    : layout == memory::format_tag::nChw8c ? 8
                    : layout == memory::format_tag::nChw4c ? 4
                                                           : 1;
  return first % block == 0 && count % block == 0;
}

memory channels_of(const memory& maps, int first, int count) {
  memory::dims dims = onednn::dims_of(maps.get_desc());
  dims[1] = count;
  return {maps.get_desc().submemory_desc(dims, {0, first, 0, 0}), maps.get_engine(), maps.get_data_handle()};
}

}  // namespace

std::unique_ptr<OnednnAdd> make_onednn_add(OnednnEngine& engine, const Shape& shape, int micro_batch,
                                           const memory& input) {
  return std::make_unique<AddLayer>(engine, shape, micro_batch, input);
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

}  // namespace convoy
