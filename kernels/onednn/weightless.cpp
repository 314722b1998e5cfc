// Stages without weights in oneDNN's layouts: the identity and response norm. The code for all devices computes the
// others.

#include <cstring>

#include "kernels/onednn/front.hpp"

namespace convoy {
namespace {

using dnnl::memory;
using Layout = memory::format_tag;

memory channels_of(const memory& maps, FilterRange channels) {
  memory::dims dims = onednn::dims_of(maps.get_desc());
  dims[1] = channels.count;
  return {maps.get_desc().submemory_desc(dims, {0, channels.first, 0, 0}), maps.get_engine(), maps.get_data_handle()};
}

/// Returns the blocked layout that convolutions prefer where the shard has all channels and they fill whole blocks, and
/// channels-last otherwise, because channels can be cut out of a blocked layout only in whole blocks.
Layout layout_for(const ShardSpec& spec, int vector_width) {
  const bool whole = spec.filters.count == spec.stage.channels;
  if (!whole || spec.stage.channels % vector_width != 0) return Layout::nhwc;
  return vector_width == 16 ? Layout::nChw16c : Layout::nChw8c;
}

/// The base of operations on all channels or on a shard's channels.
class WeightlessFront : public OnednnFront {
 public:
  WeightlessFront(OnednnEngine& engine, const ShardSpec& spec)
      : engine_(engine),
        filters_(spec.filters),
        whole_(spec.filters.count == spec.stage.channels),
        in_(input_shape(spec.stage, spec.batch)),
        out_(conv_shape(spec.stage, spec.batch, spec.filters.count)),
        input_(desc_of(in_, layout_for(spec, engine.vector_width))),
        gradient_(desc_of(out_, layout_for(spec, engine.vector_width))) {}

  const memory::desc& input_desc() const override { return input_.desc(); }
  const memory& output() const override { return output_; }
  const memory& input_gradient() const override { return input_gradient_; }

 protected:
  OnednnEngine& engine_;
  FilterRange filters_;
  bool whole_;
  Shape in_;
  Shape out_;
  OnednnInlet input_;
  OnednnInlet gradient_;
  memory output_;
  memory input_gradient_;
};

/// The identity on channels first .. first + count - 1 of the input.
class PassedChannels : public WeightlessFront {
 public:
  PassedChannels(OnednnEngine& engine, const ShardSpec& spec) : WeightlessFront(engine, spec) {
    // Maps that pass whole are not copied.
    output_ = whole_ ? memory(gradient_.desc(), engine.engine, nullptr) : engine.make(gradient_.desc());
    if (!spec.input_gradient) return;
    input_gradient_ = engine.make_gradient(input_.desc(), !whole_);
    if (!whole_) std::memset(input_gradient_.get_data_handle(), 0, input_.desc().get_size());
  }

  void forward(const memory& input, SampleRange samples) override {
    const memory& from = input_.take(engine_, input);
    if (whole_) return output_.set_data_handle(from.get_data_handle());
    engine_.reorder(channels_of(samples_of(from, in_, samples), filters_), samples_of(output_, out_, samples));
  }
  void find_input_gradient(const memory& gradient, SampleRange samples) override {
    const memory& from = gradient_.take(engine_, gradient);
    if (whole_) return input_gradient_.set_data_handle(from.get_data_handle());
    engine_.reorder(samples_of(from, out_, samples), channels_of(samples_of(input_gradient_, in_, samples), filters_));
  }
};

/// oneDNN's response norm, for a shard that has all channels.
class ResponseNormFront : public WeightlessFront {
 public:
  ResponseNormFront(OnednnEngine& engine, const ShardSpec& spec)
      : WeightlessFront(engine, spec),
        keep_input_gradient_(spec.keep_input_gradient),
        micro_batch_(spec.batch / spec.micro_batches) {
    const ResponseNorm& norm = spec.stage.norm;
    const memory::desc desc = with_samples(input_.desc(), in_, micro_batch_);
    const auto forward = onednn::describe_response_norm(engine.engine, norm, desc);
    forward_ = dnnl::lrn_forward(forward);
    for (int i = 0; i < spec.micro_batches; ++i) workspaces_.emplace_back(forward.workspace_desc(), engine.engine);
    output_ = engine.make(gradient_.desc());
    if (!spec.input_gradient) return;
    backward_ = dnnl::lrn_backward(onednn::describe_response_norm_backward(engine.engine, forward, norm, desc));
    input_gradient_ = engine.make_gradient(input_.desc(), keep_input_gradient_);
  }

  void forward(const memory& input, SampleRange samples) override {
    taken_ = input_.take(engine_, input);
    engine_.run(forward_, {{DNNL_ARG_SRC, samples_of(taken_, in_, samples)},
                           {DNNL_ARG_DST, samples_of(output_, out_, samples)},
                           {DNNL_ARG_WORKSPACE, workspace(samples)}});
  }
  void find_input_gradient(const memory& gradient, SampleRange samples) override {
    if (!keep_input_gradient_) engine_.share(input_gradient_);
    const memory& from = gradient_.take(engine_, gradient);
    engine_.run(backward_, {{DNNL_ARG_SRC, samples_of(taken_, in_, samples)},
                            {DNNL_ARG_DIFF_DST, samples_of(from, out_, samples)},
                            {DNNL_ARG_WORKSPACE, workspace(samples)},
                            {DNNL_ARG_DIFF_SRC, samples_of(input_gradient_, in_, samples)}});
  }

 private:
  const memory& workspace(SampleRange samples) const { return workspaces_[samples.first / micro_batch_]; }

  bool keep_input_gradient_;
  int micro_batch_;
  memory taken_;  ///< input of the last forward
  dnnl::lrn_forward forward_;
  dnnl::lrn_backward backward_;
  std::vector<memory> workspaces_;  ///< by micro-batch
};

}  // namespace

std::unique_ptr<OnednnFront> make_onednn_weightless(OnednnEngine& engine, const ShardSpec& spec) {
  if (spec.stage.kind == StageKind::channels) return std::make_unique<PassedChannels>(engine, spec);
  if (spec.stage.kind != StageKind::response_norm) return nullptr;
  // oneDNN has fast kernels only for beta = 0.75 and whole blocks of channels; for an even size its window differs.
  // With AVX-512, oneDNN 2.6 crashes when it compiles a backward pass for windows of one channel. For a part of the
  // channels oneDNN took nine times as long as the code for all devices (192 maps of 56x56, 48 of them computed).
  const ResponseNorm& norm = spec.stage.norm;
  const bool odd_window = norm.size > 1 && norm.size % 2 == 1;
  if (!odd_window || norm.beta != 0.75F || spec.filters.count < spec.stage.channels) return nullptr;
  return std::make_unique<ResponseNormFront>(engine, spec);
}

}  // namespace convoy
