#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "nets/graph/division.hpp"

namespace convoy {
namespace {

[[noreturn]] void fail_at(const Net& net, const Layer& layer, const std::string& what) {
  fail("{}:{}: layer {}: {}", net.file, layer.line, layer.name, what);
}

template <class T>
bool is(const Layer& layer) {
  return std::holds_alternative<T>(layer.spec);
}

bool starts_head(const Layer& layer) {
  return is<Flatten>(layer) || is<Dense>(layer) || is<SoftmaxCrossEntropy>(layer) || is<SquaredError>(layer);
}

/// Returns the layer in the form that stages use if it treats each channel by itself, else nothing. `in` are the maps
/// that it reads.
std::optional<ChannelLayer> channel_layer(const Layer& layer, const FeatureShape& in) {
  if (const auto* activation = std::get_if<Activation>(&layer.spec)) return *activation;
  if (const auto* pool = std::get_if<Pooling>(&layer.spec)) return *pool;
  if (const auto* norm = std::get_if<BatchNorm>(&layer.spec)) {
    BatchNorm made = *norm;
    made.rate = layer.rate;
    return made;
  }
  if (const auto* dropout = std::get_if<Dropout>(&layer.spec)) return *dropout;
  if (!is<GlobalAveragePool>(layer)) return std::nullopt;
  return Pooling{PoolKind::average, in.height, in.width, in.height, in.width, {}};
}

/// Assigns the layers of a net, in topological order, to stages and heads.
class Cutter {
 public:
  explicit Cutter(const Net& net) : net_(net), division_(net), values_(net.layers.size()) {
    cut_.moments = moments_of(net.training.optimizer);
  }

  Cut run() {
    head_of_.assign(net_.layers.size(), -1);
    for (std::size_t i = 0; i < net_.layers.size(); ++i) {
      const Layer& layer = net_.layers[i];
      const bool below_head =
          std::ranges::any_of(layer.inputs, [this](int input) { return input != kNetInput && head_of_[input] >= 0; });
      const bool of_head = below_head || (starts_head(layer) && !division_.before_stages[i]);
      if (!division_.has_trunk || of_head) {
        add_to_head(i);
      } else {
        values_[i] = add_to_trunk(layer);
      }
    }
    order_heads();
    for (std::size_t s = 0; s < cut_.trunk.size(); ++s) {
      Sources& from = cut_.trunk[s].from;
      if (from == Sources{{static_cast<int>(s) - 1, {0, cut_.trunk[s].channels}}}) from.clear();
    }
    expect_all_read();
    validate(cut_.trunk);
    return std::move(cut_);
  }

 private:
  Stage& stage(const Source& source) { return cut_.trunk[source.stage]; }

  Sources value(int layer) const {
    return layer == kNetInput ? Sources{{Source::kImages, {0, net_.input.channels}}} : values_[layer];
  }

  /// Throws Error naming the layer unless all channels of a stage's maps are read, where any are.
  void expect_all_read() {
    const auto channel = left_out(cut_.trunk);
    if (!channel) return;
    const auto is_maker = [&](const Layer& layer) { return layer.name == stage(*channel).name; };
    fail_at(
        net_, *std::ranges::find_if(net_.layers, is_maker),
        fmt::format("nothing reads channel {} of its maps, numbered from 0, although slices take others; take it too, "
                    "or make fewer channels",
                    channel->channels.first));
  }

  /// Whether `sources` are exactly all maps of one stage.
  bool is_stage(const Sources& sources) {
    return sources.size() == 1 && sources[0].stage >= 0 &&
           sources[0].channels == FilterRange{0, stage(sources[0]).conv.filters};
  }

  /// Whether one layer alone reads the output of `layer`, and, if `layer` is a concatenation, of each of its inputs.
  /// Only then may a reader be appended to the stages that make the output.
  bool has_one_reader(int layer) const {
    if (layer == kNetInput || division_.readers[layer] != 1) return false;
    const Layer& made = net_.layers[layer];
    if (is<Flatten>(made)) return has_one_reader(made.inputs[0]);
    if (!is<Concat>(made)) return !is<PadChannels>(made) && !is<SliceChannels>(made);
    return std::ranges::all_of(made.inputs, [this](int input) { return has_one_reader(input); });
  }

  Sources add_stage(Stage added, const Sources& from, const Initialisation& init) {
    added.moments = cut_.moments;
    added.from = from;
    cut_.trunk.push_back(std::move(added));
    cut_.inits.push_back(init);
    return {{static_cast<int>(cut_.trunk.size()) - 1, {0, cut_.trunk.back().conv.filters}}};
  }

  Sources add_weightless(const std::string& name, StageKind kind, const FeatureShape& in, const Sources& from) {
    return add_stage(stage_without_weights(name, kind, in.channels, in.height, in.width), from, {});
  }

  /// Adds a stage that multiplies each channel by a weight of its own, and adds a bias.
  Sources add_scale(const Layer& layer, bool bias, float start, const Sources& from) {
    const FeatureShape& in = shape_of(layer.inputs[0]);
    cut_.lists.resize(cut_.trunk.size());
    cut_.lists.push_back(true);
    const Initialisation init{Initialisation::Kind::constant, start};
    return add_stage({.name = layer.name,
                      .channels = in.channels,
                      .height = in.height,
                      .width = in.width,
                      .conv = {.filters = in.channels, .bias = bias, .groups = in.channels, .rate = layer.rate},
                      .after = {}},
                     from, init);
  }

  Sources add_norm(const Layer& layer, const Normalisation& what, const Sources& from) {
    const Sources made = add_weightless(layer.name, StageKind::group_norm, shape_of(layer.inputs[0]), from);
    cut_.trunk.back().group_norm = what.norm;
    return what.affine ? add_scale(layer, true, 1.0F, made) : made;
  }

  /// A PReLU is a ReLU, plus slopes times what the ReLU cuts off.
  Sources add_prelu(const Layer& layer, const PRelu& what, const Sources& from) {
    if (is_stage(from)) start_like_relu(static_cast<std::size_t>(from[0].stage));
    const FeatureShape& in = shape_of(layer.inputs[0]);
    const Sources above = add_weightless(layer.name, StageKind::channels, in, from);
    stage(above[0]).after.emplace_back(Activation::relu);
    const Sources below = add_weightless(layer.name, StageKind::channels, in, from);
    stage(below[0]).after.emplace_back(
        Activation{Activation::Kind::clip, -std::numeric_limits<float>::infinity(), 0.0F});
    const Sources made = add_scale(layer, false, what.slope, below);
    stage(made[0]).after.emplace_back(Add{above});
    return made;
  }

  /// Initialises the weights of a convolution without an activation of its own as in front of a ReLU.
  void start_like_relu(std::size_t number) {
    const auto is_activation = [](const ChannelLayer& layer) { return std::holds_alternative<Activation>(layer); };
    Initialisation& init = cut_.inits[number];
    const bool free = init == Initialisation{} && std::ranges::none_of(cut_.trunk[number].after, is_activation);
    if (free) init.kind = Initialisation::Kind::he;
  }

  Sources add_convolution(const Layer& layer, Convolution conv, const FeatureShape& in, const Sources& from) {
    conv.rate = layer.rate;
    return add_stage({.name = layer.name,
                      .channels = in.channels,
                      .height = in.height,
                      .width = in.width,
                      .conv = conv,
                      .after = {}},
                     from, layer.init);
  }

  /// Adds a convolution whose kernel covers the maps, with a filter for each unit.
  Sources add_dense(const Layer& layer, const Dense& dense, const FeatureShape& in, const Sources& from) {
    cut_.dense.resize(cut_.trunk.size());
    cut_.dense.push_back(true);
    return add_convolution(layer, {.filters = dense.units, .kernel_h = in.height, .kernel_w = in.width}, in, from);
  }

  Sources add_resized(const Layer& layer, const Resizing& by, const FeatureShape& in, const Sources& from) {
    const Sources made = add_weightless(layer.name, StageKind::resize, in, from);
    cut_.trunk.back().resizing = by;
    return made;
  }

  /// Adds a convolution of maps whose elements are spread first where the stride asks for it.
  Sources add_transposed(const Layer& layer, const TransposedConvolution& what, FeatureShape in, Sources from) {
    const Resizing spread = spread_for(what, in.height, in.width);
    if (spread.rows.extent != in.height || spread.columns.extent != in.width) {
      from = add_resized(layer, spread, in, from);
      in = {in.channels, spread.rows.extent, spread.columns.extent};
    }
    return add_convolution(layer, convolution_of(what), in, from);
  }

  Sources add_to_trunk(const Layer& layer) {
    const FeatureShape& in = shape_of(layer.inputs[0]);
    const Sources from = value(layer.inputs[0]);
    expect_maps(layer, in);
    if (const auto* conv = std::get_if<Convolution>(&layer.spec)) return add_convolution(layer, *conv, in, from);
    if (const auto* transposed = std::get_if<TransposedConvolution>(&layer.spec)) {
      return add_transposed(layer, *transposed, in, from);
    }
    if (const auto* dense = std::get_if<Dense>(&layer.spec)) return add_dense(layer, *dense, in, from);
    if (is<Flatten>(layer)) return from;
    if (const auto* norm = std::get_if<ResponseNorm>(&layer.spec)) {
      const Sources made = add_weightless(layer.name, StageKind::response_norm, in, from);
      cut_.trunk.back().norm = *norm;
      return made;
    }
    if (const auto* norm = std::get_if<Normalisation>(&layer.spec)) return add_norm(layer, *norm, from);
    if (const auto* prelu = std::get_if<PRelu>(&layer.spec)) return add_prelu(layer, *prelu, from);
    if (const auto* by = std::get_if<Upsampling>(&layer.spec)) {
      return add_resized(layer, resizing_of(*by, in.height, in.width), in, from);
    }
    if (const auto* by = std::get_if<Resizing>(&layer.spec)) return add_resized(layer, *by, in, from);
    if (is<Concat>(layer)) return joined(layer);
    if (is<Sum>(layer) || is<Product>(layer)) return add_join(layer);
    if (const auto* pad = std::get_if<PadChannels>(&layer.spec)) return padded(*pad, from);
    if (const auto* slice = std::get_if<SliceChannels>(&layer.spec)) return sliced({slice->first, slice->count}, from);
    if (const auto* shuffle = std::get_if<ShuffleChannels>(&layer.spec)) {
      const Sources made = add_weightless(layer.name, StageKind::shuffle, in, from);
      cut_.trunk.back().shuffle = shuffle->groups;
      return made;
    }
    return add_channel_layer(layer, channel_layer(layer, in).value(), from);
  }

  /// Throws Error naming a layer that would need flattened maps of more than one element as channels.
  void expect_maps(const Layer& layer, const FeatureShape& in) const {
    if (fits_head(layer)) return;
    for (const int input : layer.inputs) {
      if (input == kNetInput || net_.layers[input].output == shape_of(input)) continue;
      fail_at(
          net_, layer,
          fmt::format("it reads flattened maps of {}x{}; only dense layers, activations and dropout do, so move it in "
                      "front of the flatten or behind a dense layer",
                      in.height, in.width));
    }
  }

  Sources joined(const Layer& layer) {
    Sources all;
    for (const int input : layer.inputs) {
      for (const Source& source : value(input)) all.push_back(source);
    }
    return all;
  }

  static Sources padded(const PadChannels& pad, const Sources& from) {
    Sources all;
    if (pad.before > 0) all.push_back({Source::kZeros, {0, pad.before}});
    all.insert(all.end(), from.begin(), from.end());
    if (pad.after > 0) all.push_back({Source::kZeros, {0, pad.after}});
    return all;
  }

  static Sources sliced(FilterRange channels, const Sources& from) {
    Sources some;
    int at = 0;
    for (const Source& source : from) {
      const FilterRange both = common({at, source.channels.count}, channels);
      if (both.count > 0) some.push_back({source.stage, {source.channels.first + both.first - at, both.count}});
      at += source.channels.count;
    }
    return some;
  }

  /// Appends the layer to the stage whose maps it reads, or to all stages that were concatenated for it. If other
  /// layers read these maps too, the layer becomes a stage of its own.
  Sources add_channel_layer(const Layer& layer, const ChannelLayer& what, const Sources& from) {
    if (has_one_reader(layer.inputs[0])) {
      if (is_stage(from)) {
        stage(from[0]).after.push_back(what);
        return from;
      }
      const bool apart =
          !is<BatchNorm>(layer) && !is<Dropout>(layer);  // they number the channels of all inputs together
      if (apart && std::ranges::all_of(from, [this](const Source& source) { return is_stage({source}); })) {
        for (const Source& source : from) stage(source).after.push_back(what);
        return from;
      }
    }
    const Sources made = add_weightless(layer.name, StageKind::channels, shape_of(layer.inputs[0]), from);
    cut_.trunk.back().after.push_back(what);
    return made;
  }

  const FeatureShape& shape_of(int input) const { return division_.shape_of(input); }

  /// Appends a sum or product to the last of the stages that make its inputs, if no other layer reads this stage's maps
  /// and they are as large as the result. Otherwise it becomes a stage of its own.
  Sources add_join(const Layer& layer) {
    const auto is_large = [&](int input) { return shape_of(input) == layer.output; };
    int last = -1;
    int carrier = -1;  ///< the input whose stage takes in the others
    for (const int input : layer.inputs) {
      const Sources from = value(input);
      for (const Source& source : from) {
        if (source.stage <= last) continue;
        last = source.stage;
        carrier = is_stage(from) && has_one_reader(input) && is_large(input) ? input : -1;
      }
    }
    const bool fits = carrier >= 0 && std::ranges::count(layer.inputs, carrier) == 1;
    const int first = fits ? carrier : *std::ranges::find_if(layer.inputs, is_large);
    const Sources made =
        fits ? value(first) : add_weightless(layer.name, StageKind::channels, layer.output, value(first));
    bool skipped = false;
    for (const int input : layer.inputs) {
      if (input == first && !std::exchange(skipped, true)) continue;
      if (is<Sum>(layer)) {
        stage(made[0]).after.emplace_back(Add{value(input)});
      } else {
        stage(made[0]).after.emplace_back(Multiply{value(input), !is_large(input)});
      }
    }
    return made;
  }

  void add_to_head(std::size_t i) {
    const Layer& layer = net_.layers[i];
    if (!fits_head(layer)) {
      fail_at(net_, layer,
              "the net has no convolution, and no dense layer in front of it; add one in front, or leave it out");
    }
    const int input = layer.inputs[0];
    int& head = head_of_[i];
    if (input != kNetInput) head = head_of_[input];
    if (head < 0) {
      head = static_cast<int>(heads_.size());
      heads_.push_back({.head = {.maps = shape_of(input), .layers = {}}, .stage = take_maps(layer)});
    } else if (input != heads_[head].last) {
      fail_at(net_, layer, "another layer also reads its input; dense layers and the layers after them form a chain");
    }
    Head& mine = heads_[head];
    mine.last = static_cast<int>(i);
    mine.head.layers.push_back(layer);
  }

  /// Returns the stage whose maps the head takes. If other layers read these maps too, or they are not the maps of one
  /// stage, a stage is added that copies them.
  int take_maps(const Layer& layer) {
    if (!division_.has_trunk) return -1;
    Sources from = value(layer.inputs[0]);
    if (!is_stage(from) || !has_one_reader(layer.inputs[0])) {
      from = add_weightless(layer.name, StageKind::channels, shape_of(layer.inputs[0]), from);
    }
    return from[0].stage;
  }

  /// Sorts the heads by the stages that they take. The main head, whose loss is the net's last layer, must take the
  /// last stage, so a stage that copies its maps is appended where needed.
  void order_heads() {
    if (cut_.trunk.empty() && heads_.size() > 1) {
      fail_at(net_, net_.layers.back(), "it is a second loss; a net without convolutions can have one loss only");
    }
    const auto main_head = static_cast<std::size_t>(head_of_.back());
    Head& main = heads_[main_head];
    if (!cut_.trunk.empty() && main.stage + 1 != static_cast<int>(cut_.trunk.size())) {
      const Stage& made = cut_.trunk[main.stage];
      const Shape maps = output_shape(made, 1, made.conv.filters);
      const FeatureShape shape{maps.c, maps.h, maps.w};
      main.stage =
          add_weightless(main.head.layers[0].name, StageKind::channels, shape, {{main.stage, {0, maps.c}}})[0].stage;
    }
    std::ranges::sort(heads_, {}, &Head::stage);
    for (Head& head : heads_) cut_.heads.push_back(std::move(head.head));
  }

  struct Head {
    CutHead head;
    int stage = -1;  ///< the stage whose maps it takes
    int last = -1;   ///< index of its last layer so far
  };

  const Net& net_;
  Division division_;
  Cut cut_;
  std::vector<Sources> values_;  ///< for each layer of the trunk, the channels that make its output
  std::vector<int> head_of_;     ///< for each layer, its head as an index into heads_, or -1
  std::vector<Head> heads_;
};

}  // namespace

Cut cut(const Net& net) { return Cutter(net).run(); }

Cut without_moments(Cut cut) {
  cut.moments = 0;
  for (Stage& stage : cut.trunk) stage.moments = 0;
  return cut;
}

}  // namespace convoy
