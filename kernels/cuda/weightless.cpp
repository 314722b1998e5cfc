// Stages without weights on a GPU: channels that pass, as they are or in another order, norms and maps of other rows
// and columns.

#include <vector>

#include "kernels/cuda/convolution.hpp"
#include "kernels/host/axis_tables.hpp"

namespace convoy {
namespace {

/// The numbers of elements in a micro-batch.
struct Counts {
  int input;
  int maps;

  explicit Counts(const ShardSpec& spec) {
    const int samples = spec.batch / spec.micro_batches;
    input = static_cast<int>(input_shape(spec.stage, samples).size());
    maps = static_cast<int>(conv_shape(spec.stage, samples, spec.filters.count).size());
  }
};

/// A stage without weights, which has no gradients of filters.
class Weightless : public CudaConvolution {
 public:
  Weightless(cuda::Gpu& gpu, const ShardSpec& spec) : gpu_(gpu), counts_(spec) {}
  void filter_gradient(const float*, const float*, float*, float*) final {}

 protected:
  cuda::Gpu& gpu_;
  Counts counts_;
};

class PassingChannels : public Weightless {
 public:
  PassingChannels(cuda::Gpu& gpu, const ShardSpec& spec)
      : Weightless(gpu, spec),
        of_{.channels = spec.stage.channels,
            .groups = spec.stage.kind == StageKind::shuffle ? spec.stage.shuffle : 1,
            .first = spec.filters.first,
            .count = spec.filters.count,
            .places = spec.stage.height * spec.stage.width} {}

  void forward(const float* input, const float*, const float*, int, float* maps) override {
    gpu_.run(cuda::PassChannels{of_, input, maps}, counts_.maps);
  }
  void input_gradient(const float*, const float* gradient, const float*, float* input_gradient) override {
    gpu_.run(cuda::PassChannelsGradient{of_, gradient, input_gradient}, counts_.input);
  }

 private:
  cuda::PassedChannels of_;
};

class NormalisingResponse : public Weightless {
 public:
  NormalisingResponse(cuda::Gpu& gpu, const ShardSpec& spec)
      : Weightless(gpu, spec),
        of_{.channels = spec.stage.channels,
            .first = spec.filters.first,
            .count = spec.filters.count,
            .places = spec.stage.height * spec.stage.width,
            .size = spec.stage.norm.size,
            .alpha = spec.stage.norm.alpha,
            .beta = spec.stage.norm.beta,
            .k = spec.stage.norm.k} {}

  void forward(const float* input, const float*, const float*, int, float* maps) override {
    gpu_.run(cuda::NormaliseResponse{of_, input, maps}, counts_.maps);
  }
  void input_gradient(const float* input, const float* gradient, const float*, float* input_gradient) override {
    gpu_.run(cuda::NormaliseResponseGradient{of_, input, gradient, input_gradient}, counts_.input);
  }

 private:
  cuda::NormWindow of_;
};

class NormalisingGroups : public Weightless {
 public:
  NormalisingGroups(cuda::Gpu& gpu, const ShardSpec& spec)
      : Weightless(gpu, spec),
        of_{.channels = spec.stage.channels,
            .first = spec.filters.first,
            .count = spec.filters.count,
            .places = spec.stage.height * spec.stage.width,
            .group_channels = spec.stage.channels / spec.stage.group_norm.groups,
            .first_group = 0,
            .groups = 0,
            .by_position = spec.stage.group_norm.by_position,
            .epsilon = spec.stage.group_norm.epsilon} {
    const FilterRange read = channels_for(spec.stage, spec.filters);
    of_.first_group = read.first / of_.group_channels;
    of_.groups = read.count / of_.group_channels;
    groups_ = spec.batch / spec.micro_batches * of_.groups;
    sets_ = of_.by_position ? groups_ * of_.places : groups_;
    for (cuda::Memory<float>* each : {&sums_, &squares_, &slopes_, &products_}) {
      *each = {gpu, static_cast<std::size_t>(sets_), "statistics of groups"};
    }
  }

  void forward(const float* input, const float*, const float*, int, float* maps) override {
    find_moments(input);
    gpu_.run(cuda::NormaliseGroups{of_, input, moments(), maps}, counts_.maps);
  }
  void input_gradient(const float* input, const float* gradient, const float*, float* input_gradient) override {
    find_moments(input);  // the last forward may have been another micro-batch's
    if (of_.by_position) {
      gpu_.run(cuda::PositionSlopes{of_, input, gradient, moments(), slopes_.data(), products_.data()}, sets_);
    } else {
      gpu_.sum(cuda::GroupSlopes{of_, input, gradient, moments()}, layout(), slopes_.data(), products_.data());
    }
    gpu_.run(cuda::NormaliseGroupsGradient{of_, input, gradient, moments(), slopes_.data(), products_.data(),
                                           input_gradient},
             counts_.input);
  }

 private:
  cuda::SetMoments moments() const { return {sums_.data(), squares_.data()}; }
  cuda::Layout layout() const { return {1, groups_, of_.group_channels * of_.places}; }
  void find_moments(const float* input) {
    if (of_.by_position) {
      gpu_.run(cuda::PositionMoments{of_, input, sums_.data(), squares_.data()}, sets_);
    } else {
      gpu_.sum(cuda::GroupValues{of_, input}, layout(), sums_.data());
      gpu_.sum(cuda::GroupSquares{of_, input, sums_.data()}, layout(), squares_.data());
    }
  }

  cuda::NormGroups of_;
  int groups_ = 0;  ///< of all samples of a micro-batch
  int sets_ = 0;
  cuda::Memory<float> sums_;
  cuda::Memory<float> squares_;
  cuda::Memory<float> slopes_;
  cuda::Memory<float> products_;
};

/// The tables of a ResizedAxis.
class AxisOnGpu {
 public:
  AxisOnGpu(cuda::Gpu& gpu, const AxisTables& tables)
      : extent_(static_cast<int>(tables.begin.size())),
        result_(static_cast<int>(tables.first.size())),
        first_(on_gpu(gpu, tables.first)),
        second_(on_gpu(gpu, tables.second)),
        weight_(on_gpu(gpu, tables.weight)),
        begin_(on_gpu(gpu, tables.begin)),
        end_(on_gpu(gpu, tables.end)) {}

  cuda::ResizedAxis axis() const {
    return {extent_, result_, first_.data(), second_.data(), weight_.data(), begin_.data(), end_.data()};
  }

 private:
  template <class T>
  static cuda::Memory<T> on_gpu(cuda::Gpu& gpu, const std::vector<T>& values) {
    cuda::Memory<T> memory(gpu, values.size(), "places of resized maps");
    gpu.write_bytes(memory.data(), values.data(), values.size() * sizeof(T));
    return memory;
  }

  int extent_;
  int result_;
  cuda::Memory<int> first_;
  cuda::Memory<int> second_;
  cuda::Memory<float> weight_;
  cuda::Memory<int> begin_;
  cuda::Memory<int> end_;
};

class ResizingMaps : public Weightless {
 public:
  ResizingMaps(cuda::Gpu& gpu, const ShardSpec& spec)
      : Weightless(gpu, spec),
        rows_(gpu, {spec.stage.resizing.mode, spec.stage.resizing.rows, spec.stage.height}),
        columns_(gpu, {spec.stage.resizing.mode, spec.stage.resizing.columns, spec.stage.width}),
        of_{.channels = spec.stage.channels,
            .first = spec.filters.first,
            .count = spec.filters.count,
            .linear = spec.stage.resizing.mode == Resizing::Mode::linear,
            .rows = rows_.axis(),
            .columns = columns_.axis()} {}

  void forward(const float* input, const float*, const float*, int, float* maps) override {
    gpu_.run(cuda::Resize{of_, input, maps}, counts_.maps);
  }
  void input_gradient(const float*, const float* gradient, const float*, float* input_gradient) override {
    gpu_.run(cuda::ResizeGradient{of_, gradient, input_gradient}, counts_.input);
  }

 private:
  AxisOnGpu rows_;
  AxisOnGpu columns_;
  cuda::ResizedMaps of_;
};

}  // namespace

std::unique_ptr<CudaConvolution> make_cuda_weightless(cuda::Gpu& gpu, const ShardSpec& spec) {
  switch (spec.stage.kind) {
    case StageKind::response_norm: return std::make_unique<NormalisingResponse>(gpu, spec);
    case StageKind::group_norm: return std::make_unique<NormalisingGroups>(gpu, spec);
    case StageKind::resize: return std::make_unique<ResizingMaps>(gpu, spec);
    default: return std::make_unique<PassingChannels>(gpu, spec);
  }
}

}  // namespace convoy
