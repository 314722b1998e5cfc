#include "cl/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cl/clblast.hpp"
#include "core/cache_folder.hpp"
#include "core/disk_cache.hpp"
#include "core/stopwatch.hpp"

namespace convoy {
namespace {

/// Buffers of a shard's shapes, on which passes are timed.
struct Operands {
  ClTensor input;
  ClTensor weights;
  ClTensor bias;
  ClTensor maps;
  ClTensor input_gradient;

  Operands(ClShared& shared, const ShardSpec& spec)
      : input(shared, input_shape(spec.stage, spec.batch), "timing"),
        weights(shared, weight_shape(spec.stage, spec.filters.count), "timing"),
        bias(shared, {spec.filters.count, 1}, "timing"),
        maps(shared, conv_shape(spec.stage, spec.batch, spec.filters.count), "timing"),
        input_gradient(shared, input_shape(spec.stage, spec.batch), "timing") {}
};

/// Returns the seconds of each pass in its second run, because the first run compiles kernels.
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
  const SampleRange batch{0, with.maps.shape().n};
  time(0, [&] {
    convolution.forward(with.input.buffer(), with.weights.buffer(), with.bias.buffer(), 0, with.maps.buffer(), batch);
  });
  if (input_gradient) {
    time(1, [&] {
      convolution.input_gradient(with.maps.buffer(), with.weights.buffer(), with.input_gradient.buffer(), batch);
    });
  }
  time(2, [&] { convolution.filter_gradient(with.input.buffer(), with.maps.buffer(), with.weights.buffer()); });
  return seconds;
}

/// Returns the spec with so few samples that timing is quick even where a method is slow.
ShardSpec for_timing(const ShardSpec& spec) {
  ShardSpec few = spec;
  const double most = 2e8 / conv_flops(spec.stage, 1, spec.filters.count);
  few.batch = static_cast<int>(std::clamp(most, 1.0, static_cast<double>(spec.batch)));
  return few;
}

/// The methods that compete with direct convolutions of buffers.
struct Ways {
  bool products;
  bool images;
};

Ways ways_of(const ClContext& context) {
  const bool wanted = context.settings().images.value_or(!context.is_processor());
  return {.products = clblast_missing().empty(), .images = wanted && context.has_images()};
}

/// Returns the seconds of each pass of a method; empty where the device refuses it.
template <class Make>
std::optional<std::array<double, 3>> try_way(ClShared& shared, const Operands& operands, bool input_gradient,
                                             Make make) {
  try {
    const std::unique_ptr<ClConvolution> convolution = make();
    return seconds_of_passes(shared, *convolution, operands, input_gradient);
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;
  }
}

ClChoice measure(ClShared& shared, const ShardSpec& wanted, const Ways& ways) {
  const ShardSpec spec = for_timing(wanted);
  const Operands operands(shared, spec);
  const auto time = [&](auto make) { return try_way(shared, operands, spec.input_gradient, make); };
  auto ours = time([&] { return make_direct_convolution(shared, spec, false, nullptr); });
  if (!ours) return {};
  ClChoice choice;
  if (ways.images) {
    const auto images = time([&] { return make_direct_convolution(shared, spec, true, nullptr); });
    choice.images = images && (*images)[0] + (*images)[1] < 0.9 * ((*ours)[0] + (*ours)[1]);
    if (choice.images) ours = images;
  }
  if (!ways.products) return choice;
  const auto products = time([&] { return make_product_convolution(shared, spec); });
  const auto faster = [&](std::size_t pass) { return products && (*products)[pass] < 0.9 * (*ours)[pass]; };
  choice.forward = faster(0);
  choice.input_gradient = faster(1);
  choice.filter_gradient = faster(2);
  return choice;
}

/// Returns the cache key: everything that the timing depends on except the number of samples.
std::string key_of(ClShared& shared, const ShardSpec& spec, const Ways& ways) {
  const Convolution& c = spec.stage.conv;
  return fmt::format("convolutions of\n{}\n{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
                     shared.context.identity(), spec.stage.channels, spec.stage.height, spec.stage.width,
                     spec.filters.count, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.pad.top, c.pad.left,
                     c.pad.bottom, c.pad.right, shared.context.settings().half ? "half" : "float",
                     ways.products ? "products" : "-", ways.images ? "images" : "-",
                     spec.input_gradient ? "all passes" : "no input gradient");
}

// One letter for each pass (d: direct; p: matrix products), then one for the input of direct passes (i: images; b:
// buffers).

std::string letters_of(const ClChoice& choice) {
  const auto letter = [](bool products) { return products ? 'p' : 'd'; };
  return {letter(choice.forward), letter(choice.input_gradient), letter(choice.filter_gradient),
          choice.images ? 'i' : 'b'};
}

ClChoice choice_of(const std::string& letters) {
  const auto is = [&](std::size_t at, char letter) { return at < letters.size() && letters[at] == letter; };
  return {.forward = is(0, 'p'), .input_gradient = is(1, 'p'), .filter_gradient = is(2, 'p'), .images = is(3, 'i')};
}

}  // namespace

ClChoice choose_convolutions(ClShared& shared, const ShardSpec& spec) {
  switch (shared.context.settings().convolutions) {
    case ClConvolutions::direct: return {.images = shared.context.settings().images.value_or(false)};
    case ClConvolutions::products: return {.forward = true, .input_gradient = true, .filter_gradient = true};
    case ClConvolutions::faster: break;
  }
  // The direct kernels know no dilation. Those of grouped.cl do, and are slower than products.
  if (spec.stage.conv.dilated()) {
    const bool products = clblast_missing().empty();
    return {.forward = products, .input_gradient = products, .filter_gradient = products};
  }
  const Ways ways = ways_of(shared.context);
  if (!ways.products && !ways.images) return {};
  const std::string key = key_of(shared, spec, ways);
  const DiskCache cache(cache_folder("opencl"));
  const auto known = cache.recall(key);
  return choice_of(known ? *known : cache.settle(key, letters_of(measure(shared, spec, ways))));
}

}  // namespace convoy
