// Dense layers on the CUDA device, with a GPU of plain loops (host_gpu.cpp), beside those of the host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/random.hpp"
#include "kernels/cuda/device.hpp"
#include "model/device_dense.hpp"
#include "tests/kernels/host_gpu.hpp"
#include "tests/support/states.hpp"

namespace convoy {
namespace {

constexpr int kSamples = 6;
const DenseSpec kDense{.name = "dense1", .inputs = 11, .units = 5, .batch = kSamples, .moments = 2};

class CudaDense : public testing::Test {
 protected:
  CudaDense() {
    Random random(4, 1);
    for (Tensor* tensor : {&state_.weights.value, &state_.bias.value, &x_, &slopes_}) {
      for (float& value : tensor->span()) value = random.uniform(-1.0F, 1.0F);
    }
    for (BasicParameter<float>* parameter : {&state_.weights, &state_.bias}) {
      parameter->moments.assign(2, Tensor(parameter->value.shape(), 0.0F));
    }
  }
  void TearDown() override { host_gpu_limits() = {}; }

  std::unique_ptr<DenseLayer<float>> on_gpu(const HostGpuLimits& limits) {
    host_gpu_limits() = limits;
    device_ = make_cuda_device("cuda:0", "loops", std::make_unique<cuda::Gpu>(0, false), make_product_convolution);
    return make_device_dense(kDense, *device_, [this](const std::string& text) { told_ += text; });
  }

  /// Trains two steps of Adam in parts of two samples, and returns the gradients by x and the state.
  std::pair<Tensor, ShardState> train(DenseLayer<float>& dense) {
    dense.set_state(state_);
    Tensor y({kSamples, kDense.units});
    Tensor dx({kSamples, kDense.inputs});
    for (int step = 1; step <= 2; ++step) {
      for (int first = 0; first < kSamples; first += 2) {
        dense.forward(x_.samples(first, 2), y.samples(first, 2), {.training = true}, {first, 2});
        dense.backward(slopes_.samples(first, 2), dx.samples(first, 2), {first, 2});
      }
      dense.backward_weights(x_.span(), slopes_.span());
      dense.update({.optimizer = Optimizer::adam, .learning_rate = 0.1F, .momentum = 0.5F, .correction1 = 0.5F});
    }
    return {dx, {{dense.state().weights, dense.state().bias}}};
  }

  void expect_that_of_the_host(DenseLayer<float>& dense) {
    const auto [dx, state] = train(dense);
    const auto [expected_dx, expected] = train(*make_host_dense<float>(kDense));
    for (std::size_t i = 0; i < dx.size(); ++i) EXPECT_NEAR(dx.data()[i], expected_dx.data()[i], 1e-5);
    expect_near(state, expected, 1e-5);
  }

  DenseState<float> state_{"dense1", {Tensor({5, 11}), {}}, {Tensor({5, 1}), {}}};
  Tensor x_ = Tensor({kSamples, 11});
  Tensor slopes_ = Tensor({kSamples, 5});
  std::unique_ptr<Device> device_;
  std::string told_;
};

TEST_F(CudaDense, TrainsLikeThatOfTheHost) {
  const auto dense = on_gpu({});
  expect_that_of_the_host(*dense);
  EXPECT_EQ(told_, "");
}

TEST_F(CudaDense, IsTheHostsWhereTheGpuHasNoRoom) {
  const auto dense = on_gpu({.room = 1000});
  expect_that_of_the_host(*dense);
  EXPECT_THAT(told_,
              testing::StartsWith("the host computes dense layer dense1, because cuda:0 cannot hold it (not enough "
                                  "memory for"));
}

}  // namespace
}  // namespace convoy
