#include "tests/support/random_net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/random.hpp"

namespace convoy {
namespace {

/// The end of a branch: a layer's name and the extents of its maps.
struct End {
  std::string layer;
  int channels = 0;
  int height = 0;
  int width = 0;
};

/// Writes a net file layer by layer. Each function adds layers behind `from` and returns the last of them.
class NetWriter {
 public:
  explicit NetWriter(std::uint64_t seed) : random_(seed, 4242) {}

  std::string write() {
    End end{"input", between(1, 3), between(6, 11), between(6, 11)};
    text_ = fmt::format("name: random\ninput: {{channels: {}, height: {}, width: {}}}\nlayers:\n", end.channels,
                        end.height, end.width);
    end = convolution(end, between(2, 8), false);
    for (int blocks = between(2, 4); blocks > 0; --blocks) {
      end = block(end);
      if (!sided_ && random_.below(4) == 0) side_head(end);
    }
    if (random_.below(4) == 0) end = dense_stage(end);
    if (!sided_ && random_.below(4) == 0) {  // a dense layer that both heads read
      end = layer(layer(end, "dense, units: 6"), "tanh");
      end = {end.layer, 6, 1, 1};
      side_head(end);
    }
    end = layer(end, "dense, units: 3");
    layer(end, "softmax_cross_entropy");
    return text_;
  }

 private:
  int between(int least, int most) {
    return least + static_cast<int>(random_.below(static_cast<std::uint32_t>(most - least + 1)));
  }
  std::string name() { return fmt::format("l{}", ++layers_); }

  /// Adds a layer that leaves the extents as they are.
  End layer(End from, const std::string& fields) {
    const std::string added = name();
    text_ += fmt::format("  - {{name: {}, from: {}, type: {}}}\n", added, from.layer, fields);
    from.layer = added;
    return from;
  }
  /// Adds a layer that joins others.
  End join(const std::string& type, const End& one, const End& other) {
    End joined = one;
    joined.layer = name();
    if (type == "concat") joined.channels += other.channels;
    text_ += fmt::format("  - {{name: {}, from: [{}, {}], type: {}}}\n", joined.layer, one.layer, other.layer, type);
    return joined;
  }

  /// Adds a convolution. With `same`, it leaves rows and columns as they are.
  End convolution(const End& from, int filters, bool same) {
    const int most = std::min({3, from.height, from.width});
    const int kernel_h = same ? 1 + 2 * between(0, 1) : between(1, most);
    const int kernel_w = same ? 1 + 2 * between(0, 1) : between(1, most);
    const int dilation_h = same && random_.below(3) == 0 ? 2 : 1;
    const int dilation_w = same && random_.below(3) == 0 ? between(2, 3) : 1;
    const int stride = same || std::min(from.height, from.width) < 6 ? 1 : between(1, 2);
    const int pad_h = (kernel_h - 1) / 2 * dilation_h;
    const int pad_w = (kernel_w - 1) / 2 * dilation_w;
    int groups = between(1, 3);
    if (random_.below(4) == 0) groups = from.channels;
    if (from.channels % groups != 0 || filters % groups != 0) groups = 1;
    End end =
        layer(from, fmt::format("conv, filters: {}, kernel: [{}, {}], stride: {}, pad: [{}, {}], dilation: [{}, {}], "
                                "bias: {}, groups: {}",
                                filters, kernel_h, kernel_w, stride, pad_h, pad_w, dilation_h, dilation_w,
                                random_.below(2) == 0, groups));
    end.channels = filters;
    end.height = (from.height + 2 * pad_h - (kernel_h - 1) * dilation_h - 1) / stride + 1;
    end.width = (from.width + 2 * pad_w - (kernel_w - 1) * dilation_w - 1) / stride + 1;
    return end;
  }

  /// Adds a layer that treats each channel by itself.
  End channelwise(const End& from) {
    static const std::array<std::string, 14> kTypes{"tanh",
                                                    "sigmoid",
                                                    "relu",
                                                    "leaky_relu, slope: 0.2",
                                                    "prelu",
                                                    "batch_norm",
                                                    "dropout, rate: 0.25",
                                                    "dropout, rate: 0.25, spatial: true",
                                                    "batch_norm, momentum: 0.5",
                                                    "mish",
                                                    "celu, alpha: 0.5",
                                                    "gelu, approximate: tanh",
                                                    "gelu",
                                                    "silu"};
    return layer(from, kTypes[random_.below(kTypes.size())]);
  }
  End pooling(const End& from) {
    if (std::min(from.height, from.width) < 4) return channelwise(from);
    const int stride = between(1, 2);
    if (random_.below(4) == 0) {
      End dilated =
          layer(from, fmt::format("max_pool, kernel: 2, stride: {}, pad: [1, 0, 0, 1], dilation: [3, 2]", stride));
      dilated.height = (from.height + 1 - 4) / stride + 1;
      dilated.width = (from.width + 1 - 3) / stride + 1;
      return dilated;
    }
    if (random_.below(3) == 0) {
      End padded = layer(
          from, fmt::format("average_pool, kernel: 3, stride: {}, pad: [1, 0, 0, 1], count_padding: true", stride));
      padded.height = (from.height - 2) / stride + 1;
      padded.width = (from.width - 2) / stride + 1;
      return padded;
    }
    End end = layer(
        from, fmt::format("{}, kernel: 2, stride: {}", random_.below(2) == 0 ? "max_pool" : "average_pool", stride));
    end.height = (from.height - 2) / stride + 1;
    end.width = (from.width - 2) / stride + 1;
    return end;
  }

  End block(const End& from) {
    switch (random_.below(14)) {
      case 0: {  // a residual block
        End inside = channelwise(convolution(from, from.channels, true));
        if (random_.below(2) == 0) inside = convolution(inside, from.channels, true);
        return channelwise(join("add", inside, from));
      }
      case 1: {  // branches side by side
        const End one = convolution(from, between(1, 6), true);
        const End other =
            random_.below(2) == 0 ? channelwise(from) : channelwise(convolution(from, between(1, 6), true));
        return channelwise(join("concat", one, other));
      }
      case 2: {  // a projection beside the block
        const int filters = between(1, 9);
        return join("add", channelwise(convolution(from, filters, true)), convolution(from, filters, true));
      }
      case 3: {
        End padded = layer(from, fmt::format("pad_channels, before: {}, after: {}", between(0, 2), between(1, 2)));
        return channelwise(padded_channels(padded));
      }
      case 4: {  // squeeze and excitation
        End point = layer(from, "global_average_pool");
        point.height = point.width = 1;
        const End gate =
            layer(convolution(channelwise(convolution(point, between(1, 4), true)), from.channels, true), "sigmoid");
        if (random_.below(2) == 0) return join("multiply", from, gate);
        return channelwise(join("multiply", convolution(from, from.channels, true), gate));
      }
      case 5: {  // a product
        const int filters = between(1, 9);
        const End other = random_.below(2) == 0 ? convolution(from, filters, true) : from;
        return join("multiply", layer(convolution(from, other.channels, true), "tanh"), other);
      }
      case 6: return shuffle(from);
      case 7: {  // a part of the channels passes by a convolution of the others
        if (from.channels == 1) return channelwise(from);
        const int passing = between(1, from.channels - 1);
        const End one = slice(from, 0, passing);
        const End other = convolution(slice(from, passing, from.channels - passing), between(1, 5), true);
        const End joined = join("concat", random_.below(2) == 0 ? one : channelwise(one), other);
        return random_.below(2) == 0 ? shuffle(joined) : channelwise(joined);
      }
      case 10: return channelwise(norm(convolution(from, between(1, 9), true)));
      case 11: {  // larger maps, which a convolution with a stride or a pooling makes smaller again
        const int rows = between(1, 2);
        const int columns = between(1, 2);
        End larger = layer(from, fmt::format("upsample, factor: [{}, {}], mode: {}", rows, columns,
                                             random_.below(2) == 0 ? "nearest" : "bilinear"));
        larger.height *= rows;
        larger.width *= columns;
        return pooling(random_.below(2) == 0 ? norm(larger) : convolution(larger, between(1, 6), false));
      }
      case 12: return channelwise(transposed(from));
      case 13: {  // maps of any other size
        End other = from;
        other.height = between(3, 9);
        other.width = between(3, 9);
        other =
            layer(other, fmt::format("resize, size: [{}, {}], mode: {}, align_corners: {}", other.height, other.width,
                                     random_.below(2) == 0 ? "nearest" : "bilinear", random_.below(2) == 0));
        return channelwise(convolution(other, between(1, 6), false));
      }
      case 8: return pooling(layer(from, fmt::format("response_norm, size: {}, alpha: 0.5", between(1, 4))));
      default: return pooling(channelwise(convolution(from, between(1, 9), false)));
    }
  }
  /// Adds a transposed convolution, and a pooling where it has made maps large.
  End transposed(const End& from) {
    const int filters = between(1, 6);
    const int kernel = between(1, 3);
    const int stride = between(1, 2);
    const int pad = between(0, (kernel - 1) / 2);
    const int more = between(0, stride - 1);
    int groups = between(1, 3);
    if (from.channels % groups != 0 || filters % groups != 0) groups = 1;
    End end = layer(from, fmt::format("conv_transpose, filters: {}, kernel: {}, stride: {}, pad: {}, output_pad: {}, "
                                      "groups: {}",
                                      filters, kernel, stride, pad, more, groups));
    end.channels = filters;
    end.height = (from.height - 1) * stride + kernel - 2 * pad + more;
    end.width = (from.width - 1) * stride + kernel - 2 * pad + more;
    return stride > 1 ? pooling(end) : end;
  }
  /// Adds a dense layer and a batch norm, so that the dense layer is a stage.
  End dense_stage(const End& from) {
    End end = layer(layer(from, "dense, units: 7"), random_.below(2) == 0 ? "tanh" : "dropout, rate: 0.25");
    end = {end.layer, 7, 1, 1};
    return layer(end, random_.below(2) == 0 ? "batch_norm" : "layer_norm, epsilon: 0.1");
  }
  /// Adds a norm of each sample, with an epsilon that keeps rounding small where values are nearly equal.
  End norm(const End& from) {
    int groups = between(1, 3);
    while (from.channels % groups != 0) --groups;
    const std::array<std::string, 3> types{fmt::format("group_norm, groups: {}", groups), "instance_norm",
                                           "layer_norm"};
    return layer(from, fmt::format("{}, epsilon: 0.1, affine: {}", types[random_.below(3)], random_.below(2) == 0));
  }
  End slice(const End& from, int first, int count) {
    End part = layer(from, fmt::format("slice_channels, first: {}, count: {}", first, count));
    part.channels = count;
    return part;
  }
  End shuffle(const End& from) {
    int groups = between(2, 4);
    while (from.channels % groups != 0) --groups;
    return layer(from, fmt::format("shuffle_channels, groups: {}", groups));
  }
  /// Follows channels of zeros with a convolution, which gives a number of channels that is known here again.
  End padded_channels(End padded) {
    const End end = layer(padded, "conv, filters: 5, kernel: 1");
    return {end.layer, 5, end.height, end.width};
  }

  void side_head(const End& from) {
    sided_ = true;
    layer(layer(from, "dense, units: 3"), "softmax_cross_entropy, weight: 0.5");
  }

  Random random_;
  std::string text_;
  int layers_ = 0;
  bool sided_ = false;
};

}  // namespace

std::string random_net(std::uint64_t seed) { return NetWriter(seed).write(); }

}  // namespace convoy
