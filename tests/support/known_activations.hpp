// Values and derivatives of activations as PyTorch 2.15 gives them in double precision, at their limits and kinks and
// far from zero.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/host_shard.hpp"

namespace convoy {

struct KnownActivation {
  Activation activation;
  std::vector<double> values;
  std::vector<double> derivatives;
};

inline const std::vector<double> kKnownInputs{-100, -20, -6, -3, -1, -0.5, 0, 0.25, 1, 3, 6, 20, 100};

// clang-format off
inline std::vector<KnownActivation> known_activations() {
  using Kind = Activation::Kind;
  return {
  {{Kind::relu},
   {0, 0, 0, 0, 0, 0, 0, 0.25, 1, 3, 6, 20, 100},
   {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}},
  {{Kind::clip, 0.0F, 6.0F},
   {0, 0, 0, 0, 0, 0, 0, 0.25, 1, 3, 6, 6, 6},
   {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0}},
  {{Kind::clip, -1.0F, 1.0F},
   {-1, -1, -1, -1, -1, -0.5, 0, 0.25, 1, 1, 1, 1, 1},
   {0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0}},
  {{Kind::hard_sigmoid, 1.0F / 6.0F, 0.5F},
   {0, 0, 0, 0, 0.333333333333, 0.416666666667, 0.5, 0.541666666667, 0.666666666667, 1, 1, 1, 1},
   {0, 0, 0, 0, 0.166666671634, 0.166666671634, 0.166666671634, 0.166666671634, 0.166666671634, 0, 0, 0, 0}},
  {{Kind::elu, 0.75F},
   {-0.75, -0.749999998454, -0.748140935868, -0.712659698724, -0.474090419121, -0.295102005216, 0, 0.25, 1, 3, 6, 20,
    100},
   {2.79005698202e-44, 1.54586521683e-09, 0.0018590641325, 0.0373403012759, 0.275909580879, 0.454897994784, 0.75, 1, 1,
    1, 1, 1, 1}},
  {{Kind::selu},
   {-1.75809934085, -1.75809933722, -1.75374144828, -1.67056872877, -1.11133073781, -0.691758187803, 0, 0.262675246839,
    1.05070098736, 3.15210296207, 6.30420592413, 21.0140197471, 105.070098736},
   {6.54026312134e-44, 3.62371282499e-09, 0.00435789256792, 0.0875306120803, 0.646768603035, 1.06634115304,
    1.75809934085, 1.05070098736, 1.05070098736, 1.05070098736, 1.05070098736, 1.05070098736, 1.05070098736}},
  {{Kind::softplus},
   {3.72007597602e-44, 2.06115362031e-09, 0.00247568513773, 0.0485873515737, 0.313261687518, 0.47407698418,
    0.69314718056, 0.825939419879, 1.31326168752, 3.04858735157, 6.00247568514, 20.0000000021, 100},
   {3.72007597602e-44, 2.06115361819e-09, 0.00247262315663, 0.0474258731776, 0.26894142137, 0.377540668798, 0.5,
    0.562176500886, 0.73105857863, 0.952574126822, 0.997527376843, 0.999999997939, 1}},
  {{Kind::silu},
   {-3.72007597602e-42, -4.12230723638e-08, -0.0148357389398, -0.142277619533, -0.26894142137, -0.188770334399, 0,
    0.140544125221, 0.73105857863, 2.85772238047, 5.98516426106, 19.9999999588, 100},
   {-3.68287521626e-42, -3.91619186606e-08, -0.0123264325915, -0.0881041060152, 0.0723294881285, 0.260038812697, 0.5,
    0.62371002157, 0.927670511871, 1.08810410602, 1.01232643259, 1.00000003916, 1}},
  {{Kind::hard_swish},
   {0, 0, 0, 0, -0.333333333333, -0.208333333333, 0, 0.135416666667, 0.666666666667, 3, 6, 20, 100},
   {0, 0, 0, 0, 0.166666666667, 0.333333333333, 0.5, 0.583333333333, 0.833333333333, 1, 1, 1, 1}},
  {{Kind::gelu},
   {0, 0, -5.91952586948e-09, -0.00404969409489, -0.158655253931, -0.154268769363, 0, 0.149676581421, 0.841344746069,
    2.99595030591, 5.99999999408, 20, 100},
   {0, 0, -3.5468709454e-08, -0.0119456472042, -0.0833154705877, 0.132504875344, 0.5, 0.695373354884, 1.08331547059,
    1.0119456472, 1.00000003547, 1, 1}},
  {{Kind::gelu_tanh},
   {0, 0, -8.43964897967e-11, -0.00363739208177, -0.158808009392, -0.154285990175, 0, 0.149675350702, 0.841191990608,
    2.99636260792, 5.99999999992, 20, 100},
   {0, 0, -7.70997601284e-10, -0.011584166631, -0.0829640838458, 0.132630096465, 0.5, 0.695354095151, 1.08296408385,
    1.01158416663, 1.00000000077, 1, 1}},
  {{Kind::mish},
   {-3.72007597602e-42, -4.12230724063e-08, -0.0148540804794, -0.145647461276, -0.303401461374, -0.220743774652, 0,
    0.169572409664, 0.865098388267, 2.98653500497, 5.99992663407, 20, 100},
   {-3.68287521626e-42, -3.91619187435e-08, -0.0123599679318, -0.0933931145323, 0.0592167558774, 0.289510677914, 0.6,
    0.754172667721, 1.0490362201, 1.02110691093, 1.00013414051, 1, 1}},
  {{Kind::celu, 0.75F},
   {-0.75, -0.749999999998, -0.749748403029, -0.736263270833, -0.552302146413, -0.364937160726, 0, 0.25, 1, 3, 6, 20,
    100},
   {1.24184982248e-58, 2.62309376967e-12, 0.000335462627903, 0.0183156388887, 0.263597138116, 0.513417119033, 1, 1, 1,
    1, 1, 1, 1}},
  };
}
// clang-format on

/// Expects the known values of a device, behind a convolution that passes its input on and behind another layer.
inline void expect_known_activations(Device& device) {
  const int count = static_cast<int>(kKnownInputs.size());
  const std::vector<float> inputs(kKnownInputs.begin(), kKnownInputs.end());
  for (const KnownActivation& known : known_activations()) {
    for (const bool apart : {false, true}) {
      Stage stage{.name = "stage", .channels = 1, .height = 1, .width = count, .conv = {.filters = 1}, .after = {}};
      if (apart) stage.after.emplace_back(Dropout{0.0F, 0});
      stage.after.emplace_back(known.activation);
      HostShard shard(device, {.stage = stage, .filters = {0, 1}, .batch = 1, .input_gradient = true});
      ShardState state = zero_state(stage, 1);
      state.weights().data()[0] = 1.0F;
      shard.shard().set_state(state);
      const Tensor values = shard.forward(inputs, {.training = true});
      const Tensor derivatives = *shard.backward(std::vector<float>(inputs.size(), 1.0F));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto where = fmt::format("kind {}, {}, at {}", static_cast<int>(known.activation.kind),
                                       apart ? "apart" : "behind the convolution", inputs[i]);
        EXPECT_NEAR(values.data()[i], known.values[i], 1e-6 * std::max(1.0, std::abs(known.values[i]))) << where;
        EXPECT_NEAR(derivatives.data()[i], known.derivatives[i], 1e-6) << where;
      }
    }
  }
}

}  // namespace convoy
