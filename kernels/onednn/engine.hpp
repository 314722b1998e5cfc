// What the sources of the oneDNN device share. Includes oneDNN: for kernels/ alone.
#pragma once

#include <unordered_map>

#include "core/stage.hpp"
#include "kernels/device.hpp"
#include "kernels/onednn/api.hpp"

namespace convoy {

/// The CPU engine and its stream, and how many threads its work takes.
struct OnednnEngine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  int threads = 1;
  int vector_width = 16;  ///< floats that its instructions take at once
  bool amd = false;       ///< whose processors prefer other layouts than Intel's
  bool amx = false;       ///< it has Intel's matrix instructions
  bool bf16 = false;      ///< convolutions multiply bfloat16, and sum in floats

  /// oneDNN takes the calling thread's OpenMP setting, both when a primitive is made and when it runs.
  void use_threads() const;
  dnnl::memory make(const dnnl::memory::desc& desc) const;
  /// For a gradient by an input; of its own, or to be shared.
  dnnl::memory make_gradient(const dnnl::memory::desc& desc, bool keep) const;
  /// Gives it the memory that all shards use in turns, as much as the neediest of them needs; before each use.
  void share(dnnl::memory& gradient);
  /// Room for so many floats, whose values last until somebody else asks; the first time, at compile, it is made.
  float* scratch(std::size_t floats);
  /// `added`: to what is there.
  void reorder(const dnnl::memory& from, const dnnl::memory& to, bool added = false);
  void run(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments);

 private:
  // dnnl::reorder looks its kernel up at every call; these are kept for each pair of memories.
  struct Reorder {
    dnnl::memory::desc from;
    dnnl::memory::desc to;
    bool added = false;
    dnnl::reorder primitive;
  };
  std::vector<Reorder> reorders_;
  dnnl::memory shared_;
  dnnl::memory scratch_;
};

dnnl::memory::dims dims_of(const Shape& shape);
/// Plain NCHW (or KCRS) floats.
dnnl::memory::desc plain_desc(const Shape& shape);
/// Values in a layout; `any` leaves it to the primitive.
dnnl::memory::desc desc_of(const Shape& shape, dnnl::memory::format_tag layout,
                           dnnl::memory::data_type type = dnnl::memory::data_type::f32);
/// The layout of a primitive's maps of that shape.
dnnl::memory::format_tag layout_of(const dnnl::memory::desc& desc, const Shape& shape);
/// The same layout for maps of another number of samples.
dnnl::memory::desc with_samples(const dnnl::memory::desc& desc, const Shape& shape, int samples);
/// Samples of maps of that shape: a view, or `maps` itself where they are all of them.
dnnl::memory samples_of(const dnnl::memory& maps, const Shape& shape, SampleRange samples);

class OnednnTensor : public DeviceTensor {
 public:
  OnednnTensor(OnednnEngine& engine, const Shape& shape, const dnnl::memory::desc& desc)
      : OnednnTensor(engine, shape, engine.make(desc)) {}
  /// Shows a memory that somebody else fills.
  OnednnTensor(OnednnEngine& engine, const Shape& shape, const dnnl::memory& shown)
      : engine_(engine), shape_(shape), memory_(shown) {}

  using DeviceTensor::read;
  using DeviceTensor::write;
  Shape shape() const override { return shape_; }
  void write(SampleRange samples, std::span<const float> values) override;
  void read(SampleRange samples, std::span<float> values) const override;
  using DeviceTensor::take_channels;
  void take_channels(const DeviceTensor& from, FilterRange channels, int first, bool added,
                     SampleRange samples) override;
  const dnnl::memory& memory() const { return memory_; }

 private:
  OnednnEngine& engine_;
  Shape shape_;
  dnnl::memory memory_;
};

/// A memory that takes tensors of any layout: passes them on where the layout fits, converts where it does not.
class OnednnInlet {
 public:
  OnednnInlet() = default;
  explicit OnednnInlet(const dnnl::memory::desc& desc) : desc_(desc) {}
  const dnnl::memory::desc& desc() const { return desc_; }
  /// `from` itself or a converted copy that holds until the next call.
  const dnnl::memory& take(OnednnEngine& engine, const dnnl::memory& from);

 private:
  dnnl::memory::desc desc_;
  dnnl::memory converted_;
};

/// A parameter with what the optimizer keeps for it.
struct OnednnParameter {
  dnnl::memory values;
  std::vector<dnnl::memory> moments;
  dnnl::memory gradient;  ///< empty where it is not trained

  OnednnParameter() = default;
  /// Zeros.
  OnednnParameter(const OnednnEngine& engine, const dnnl::memory::desc& desc, bool trained, int moments);
  bool trained() const { return static_cast<bool>(gradient); }
  void update(const UpdateStep& step) const;
  /// The same of a list of numbers, (count, 1).
  Parameter list_to_host() const;
  void take_list(const Parameter& from) const;
};
/// Values of a list of numbers, (count, 1).
Tensor read_list(const dnnl::memory& from);
void write_list(const Tensor& from, const dnnl::memory& to);

/// One channel layer after the convolution. Samples are those of a micro-batch; with batch norm in the stage, all.
class OnednnLayer {
 public:
  virtual ~OnednnLayer() = default;
  /// From the memory that the layer was made for to output().
  virtual void forward(const Pass& pass, SampleRange samples) = 0;
  virtual const dnnl::memory& output() const = 0;
  /// From the gradient by these samples of output() to those of input_gradient().
  virtual void backward(const dnnl::memory& gradient, SampleRange samples) = 0;
  virtual const dnnl::memory& input_gradient() const = 0;
  /// Of the batch.
  virtual const Shape& input_shape() const = 0;
  /// In the order of parameters_of().
  virtual std::vector<const OnednnParameter*> parameters() const { return {}; }
};

/// A layer that reads `input` (of shape `shape`, that of the batch) in that memory's layout. `micro_batch`: samples of
/// one. `first_filter` is the whole stage's number of its first channel. `after_relu`: the input is a ReLU's output, and the layer's backward is to include the ReLU's
/// (for max pooling alone).
std::unique_ptr<OnednnLayer> make_onednn_layer(OnednnEngine& engine, const ChannelLayer& layer, const Shape& shape,
                                               int micro_batch, const dnnl::memory& input, int first_filter,
                                               bool after_relu);
/// Backward alone of an activation whose output is `output`: forward is part of the convolution, or of a layer before.
std::unique_ptr<OnednnLayer> make_onednn_activation_backward(OnednnEngine& engine, const Activation& activation,
                                                             const Shape& shape, int micro_batch,
                                                             const dnnl::memory& output);
/// Adds maps, which have to be set before the first forward.
class OnednnAdd : public OnednnLayer {
 public:
  virtual void connect(const dnnl::memory& added) = 0;
};
std::unique_ptr<OnednnAdd> make_onednn_add(OnednnEngine& engine, const Shape& shape, int micro_batch,
                                           const dnnl::memory& input);
/// `fused`: a ReLU to follow, which the layer computes as well, forward and backward.
std::unique_ptr<OnednnLayer> make_onednn_batch_norm(OnednnEngine& engine, const BatchNorm& layer, const Shape& shape,
                                                    int moments, const dnnl::memory& input, bool fused);
dnnl::algorithm onednn_algorithm(const Activation& activation);

}  // namespace convoy
