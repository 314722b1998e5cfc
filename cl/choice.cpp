#include "cl/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cl/cache.hpp"
#include "cl/clblast.hpp"
#include "core/stopwatch.hpp"

namespace convoy {
namespace {

/// Buffers of a shard's shapes, to time passes on.
struct Operands {
  ClTensor input;
  ClTensor weights;
  ClTensor bias;
  ClTensor maps;
  ClTensor input_gradient;

  Operands(ClContext& context, const ShardSpec& spec)
      : input(context, input_shape(spec.stage, spec.batch), "timing"),
        weights(context, weight_shape(spec.stage, spec.filters.count), "timing"),
        bias(context, {spec.filters.count, 1}, "timing"),
        maps(context, conv_shape(spec.stage, spec.batch, spec.filters.count), "timing"),
        input_gradient(context, input_shape(spec.stage, spec.batch), "timing") {}
};

/// Seconds of each pass, the second time: the first compiles.
std::array<double, 3> seconds_of_passes(ClShared& shared, ClConvolution& convolution, const Operands& with,
                                        bool input_gradient) {
  std::array<double, 3> seconds{};
  const auto time = [&](std::size_t pass, const auto& work) {
    for (int round = 0; round < 2; ++round) {
      convolution.input_changed();
      convolution.weights_changed();
      const Stopwatch watch;
      work();
      shared.context.finish();
      seconds[pass] = watch.seconds();
    }
  };
  time(0, [&] {
    convolution.forward(with.input.buffer(), with.weights.buffer(), with.bias.buffer(), 0, with.maps.buffer());
  });
  if (input_gradient) {
    time(1,
         [&] { convolution.input_gradient(with.maps.buffer(), with.weights.buffer(), with.input_gradient.buffer()); });
  }
  time(2, [&] { convolution.filter_gradient(with.input.buffer(), with.maps.buffer(), with.weights.buffer()); });
  return seconds;
}

/// So few samples that timing is short even where a way is slow.
ShardSpec for_timing(const ShardSpec& spec) {
  ShardSpec few = spec;
  const double most = 2e8 / conv_flops(spec.stage, 1, spec.filters.count);
  few.batch = static_cast<int>(std::clamp(most, 1.0, static_cast<double>(spec.batch)));
  return few;
}

ClChoice measure(ClShared& shared, const ShardSpec& wanted) {
  const ShardSpec spec = for_timing(wanted);
  const Operands operands(shared.context, spec);
  const auto direct = make_direct_convolution(shared, spec);
  const auto products = make_product_convolution(shared, spec);
  const auto ours = seconds_of_passes(shared, *direct, operands, spec.input_gradient);
  const auto theirs = seconds_of_passes(shared, *products, operands, spec.input_gradient);
  const auto faster = [&](std::size_t pass) { return theirs[pass] < 0.9 * ours[pass]; };
  return {.forward = faster(0), .input_gradient = faster(1), .filter_gradient = faster(2)};
}

/// All that the timing depends on but the number of samples.
std::string key_of(ClShared& shared, const ShardSpec& spec) {
  const Convolution& c = spec.stage.conv;
  return fmt::format("convolutions of\n{}\n{} {} {} {} {} {} {} {} {} {} {} {} {}\n", shared.context.identity(),
                     spec.stage.channels, spec.stage.height, spec.stage.width, spec.filters.count, c.kernel_h,
                     c.kernel_w, c.stride_h, c.stride_w, c.pad.top, c.pad.left, c.pad.bottom, c.pad.right,
                     shared.context.settings().half ? "half" : "float");
}

}  // namespace

ClChoice choose_convolutions(ClShared& shared, const ShardSpec& spec) {
  switch (shared.context.settings().convolutions) {
    case ClConvolutions::direct: return {};
    case ClConvolutions::products: return {true, true, true};
    case ClConvolutions::faster: break;
  }
  if (!clblast_missing().empty()) return {};
  const std::string key = key_of(shared, spec);
  // A letter for each pass: d, direct; p, products. A first stage never timed its input gradient.
  if (const auto known = recall(key); known && known->size() == 3 && !(spec.input_gradient && (*known)[1] == '-')) {
    return {(*known)[0] == 'p', (*known)[1] == 'p', (*known)[2] == 'p'};
  }
  ClChoice choice;
  try {
    choice = measure(shared, spec);
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error&) {
    // CLBlast refuses, or there is no room for both ways: the direct one needs neither.
  }
  const auto letter = [](bool products) { return products ? 'p' : 'd'; };
  remember(key, {letter(choice.forward), spec.input_gradient ? letter(choice.input_gradient) : '-',
                 letter(choice.filter_gradient)});
  return choice;
}

}  // namespace convoy
