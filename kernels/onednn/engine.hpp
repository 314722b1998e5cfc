// Helpers that the sources of the oneDNN device share. This header includes oneDNN and is for kernels/ only.
#pragma once

#include <unordered_map>

#include "core/stage.hpp"
#include "kernels/device.hpp"
#include "kernels/host/laned_maps.hpp"
#include "kernels/onednn/api.hpp"

namespace convoy {

/// The CPU engine with its stream and its memory, and the facts that choose kernels.
struct OnednnEngine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  int threads = 1;
  int vector_width = 16;  ///< floats in a vector register
  bool amd = false;       ///< AMD's processors prefer other layouts than Intel's
  bool amx = false;       ///< the processor has Intel's matrix instructions
  bool bf16 = false;      ///< convolutions multiply bfloat16 and sum in floats

  /// Sets the number of OpenMP threads of the calling thread, which oneDNN reads when it creates a primitive and when
  /// it runs one.
  void use_threads() const;
  dnnl::memory make(const dnnl::memory::desc& desc) const;
  /// Returns a memory for an input gradient: of its own where `keep` is set; otherwise without data, for share().
  dnnl::memory make_gradient(const dnnl::memory::desc& desc, bool keep) const;
  /// Makes `gradient` use the memory that all shards share in turn, which is as large as the largest request. Call it
  /// before each use.
  void share(dnnl::memory& gradient);
  /// Returns scratch memory for `floats` floats, whose values last until the next call. Call it at compile time too, so
  /// that the memory is allocated then.
  float* scratch(std::size_t floats);
  /// Converts between layouts; adds to the values of `to` where `added` is set.
  void reorder(const dnnl::memory& from, const dnnl::memory& to, bool added = false);
  void run(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments);
  /// Runs a primitive that includes a ReLU or a clip. Returns false where that may have met NaN, which it turns into a
  /// number: the caller then runs the primitive without it, and activate_in_place().
  [[nodiscard]] bool run_relu(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments);

 private:
  // dnnl::reorder looks its kernel up at every call, so reorder() keeps a primitive for each pair of descriptors.
  struct Reorder {
    dnnl::memory::desc from;
    dnnl::memory::desc to;
    bool added = false;
    onednn::Reordering how;
  };
  std::vector<Reorder> reorders_;
  dnnl::memory shared_;
  dnnl::memory scratch_;
};

dnnl::memory::dims dims_of(const Shape& shape);
/// Returns the descriptor of plain NCHW (or KCRS) floats.
dnnl::memory::desc plain_desc(const Shape& shape);
/// Returns the descriptor of values in a layout; `any` leaves the layout to the primitive.
dnnl::memory::desc desc_of(const Shape& shape, dnnl::memory::format_tag layout,
                           dnnl::memory::data_type type = dnnl::memory::data_type::f32);
/// Returns the layout of a primitive's maps of this shape.
dnnl::memory::format_tag layout_of(const dnnl::memory::desc& desc, const Shape& shape);
/// Returns maps of this shape as planes with lanes.
LanedMaps lanes_of(const dnnl::memory::desc& desc, const Shape& shape);
/// Returns the descriptor in the same layout for another number of samples.
dnnl::memory::desc with_samples(const dnnl::memory::desc& desc, const Shape& shape, int samples);
/// Returns samples of maps of this shape: a view, or `maps` itself where the samples are all of them.
dnnl::memory samples_of(const dnnl::memory& maps, const Shape& shape, SampleRange samples);

class OnednnTensor : public DeviceTensor {
 public:
  OnednnTensor(OnednnEngine& engine, const Shape& shape, const dnnl::memory::desc& desc)
      : OnednnTensor(engine, shape, engine.make(desc)) {}
  /// Views a memory that another object fills.
  OnednnTensor(OnednnEngine& engine, const Shape& shape, const dnnl::memory& shown)
      : engine_(engine), shape_(shape), memory_(shown) {}

  using DeviceTensor::read;
  using DeviceTensor::write;
  Shape shape() const override { return shape_; }
  void write(SampleRange samples, std::span<const float> values) override;
  bool write_pixels(SampleRange samples, std::span<const std::uint8_t> pixels, const Normaliser& normaliser) override;
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

/// A memory that accepts tensors of any layout: it passes them on where the layout fits, and converts them where it
/// does not.
class OnednnInlet {
 public:
  OnednnInlet() = default;
  explicit OnednnInlet(const dnnl::memory::desc& desc) : desc_(desc) {}
  const dnnl::memory::desc& desc() const { return desc_; }
  /// Returns `from` itself, or a converted copy that is valid until the next call.
  const dnnl::memory& take(OnednnEngine& engine, const dnnl::memory& from);

 private:
  dnnl::memory::desc desc_;
  dnnl::memory converted_;
};

/// A parameter with the optimizer's moments.
struct OnednnParameter {
  dnnl::memory values;
  std::vector<dnnl::memory> moments;
  dnnl::memory gradient;  ///< empty where the parameter is not trained
  float rate = 0.0F;      ///< factor of the learning rate

  OnednnParameter() = default;
  /// The values, moments and gradient start at zero. With a rate of 0 the parameter is not trained.
  OnednnParameter(const OnednnEngine& engine, const dnnl::memory::desc& desc, float rate, int moments);
  bool trained() const { return static_cast<bool>(gradient); }
  /// Returns whether the results are finite; of an untrained parameter, whether its values are.
  [[nodiscard]] bool update(const UpdateStep& step) const;
  /// Looks at all values.
  bool finite() const;
  /// Convert a parameter that is a list of numbers, (count, 1), to and from the host.
  Parameter list_to_host() const;
  void take_list(const Parameter& from) const;
};
/// Returns the place of the values of a memory of floats.
float* floats_of(const dnnl::memory& values);
/// Returns how many floats a memory holds.
std::size_t count_of(const dnnl::memory& values);
/// Returns the values of a list of numbers, (count, 1).
Tensor read_list(const dnnl::memory& from);
/// Writes a list of numbers, (count, 1).
void write_list(const Tensor& from, const dnnl::memory& to);

/// An activation as oneDNN computes it, with the numbers of the algorithm.
struct OnednnEltwise {
  dnnl::algorithm algorithm;
  float alpha = 0.0F;
  float beta = 0.0F;
};
/// Returns the form of an activation that a convolution includes or that is_on_host() is false for.
OnednnEltwise onednn_eltwise(const Activation& activation);
/// Returns whether a convolution includes the activation where it comes first.
bool joins_convolutions(const Activation& activation);
/// Returns whether oneDNN's form of an activation turns NaN into a number.
bool loses_nan(const Activation& activation);

}  // namespace convoy
