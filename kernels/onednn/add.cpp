#include "kernels/onednn/join.hpp"

namespace convoy {

using dnnl::algorithm;
using dnnl::memory;

namespace {

class AddLayer : public OnednnJoin {
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
  /// The gradient of the layer's input is the gradient of the added maps as well.
  const memory& taken_gradient() const override { return input_gradient_; }
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

}  // namespace

std::unique_ptr<OnednnJoin> make_onednn_add(OnednnEngine& engine, const Shape& shape, int micro_batch,
                                            const memory& input) {
  return std::make_unique<AddLayer>(engine, shape, micro_batch, input);
}

}  // namespace convoy
