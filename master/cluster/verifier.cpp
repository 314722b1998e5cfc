#include "master/cluster/verifier.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/random.hpp"

namespace convoy {
namespace {

/// Streams of a step's seed: one draws the tile, the next disturbs its inputs.
constexpr std::uint64_t kTileStream = std::uint64_t{7} << 32;
constexpr std::uint64_t kDisturbanceStream = kTileStream + 1;

/// How often a tile is computed from disturbed inputs before its values count as wrong. A rounding error may send a
/// gradient through another element of a pooling window, which is rare but moves much. An honest slave is as likely to
/// be hit as each of the disturbed results, so its values exceed all of them, and four times over, in much less than
/// one case of kDisturbances.
constexpr std::uint64_t kDisturbances = 16;

constexpr double kLargestFloat = std::numeric_limits<float>::max();
constexpr double kTiniest = 1e-30;
/// Four roundings of a float.
constexpr double kFloatRounding = 4.0 / (1U << 24U);

/// Adds a random error to each value: up to one rounding to bf16 of the value, and of the values' root mean square. The
/// second part gives zeros an error, too, so that equal zeros become unequal.
void disturb(Random& random, std::span<float> values) {
  const double squares = sum_of_squares<float>(values);
  const auto mean =
      static_cast<float>(std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, values.size()))));
  const auto rounding = static_cast<float>(Comparison::kRounding);
  for (float& value : values) value += rounding * (std::abs(value) + mean) * random.uniform(-1.0F, 1.0F);
}

TileInputs disturbed(const TileInputs& inputs, std::uint64_t seed) {
  Random random(seed, kDisturbanceStream);
  TileInputs other = inputs;
  for (Tensor& maps : other.maps) disturb(random, maps.span());
  disturb(random, other.gradient.span());
  return other;
}

double norm(const Tensor& tensor) { return std::sqrt(sum_of_squares(tensor.span())); }

/// The values of the optimizer's gradient (with weight decay and scale) that turned a parameter's moments into others.
/// `share` is the weight of the gradient in the first moment.
double implied(const UpdateStep& step, double share, float before, float after) {
  return (static_cast<double>(after) - static_cast<double>(step.momentum) * static_cast<double>(before)) / share;
}

/// Adds the differences between a parameter after the update and what the rule of the update makes of the gradient that
/// its own first moment implies. The rule is the same for each value on every device, so only roundings differ.
void compare_rule(const UpdateStep& step, const std::vector<double>& gradient, const Parameter& before,
                  const Parameter& after, Comparison& result) {
  std::vector<double> values(before.value.span().begin(), before.value.span().end());
  std::vector<std::vector<double>> moments;
  std::vector<double*> pointers;
  for (const Tensor& moment : before.moments) moments.emplace_back(moment.span().begin(), moment.span().end());
  for (std::vector<double>& moment : moments) pointers.push_back(moment.data());
  UpdateStep rule = step;
  rule.gradient_scale = 1.0F;
  rule.weight_decay = 0.0F;
  update_values<double>(rule, gradient.data(), values.data(), pointers.data(), 0, values.size());
  // Judged by how much the update changes the values.
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double from = before.value.data()[i];
    result.add(static_cast<double>(after.value.data()[i]) - from, values[i] - from, values[i] - from);
  }
  result.allow(kFloatRounding * norm(before.value));
  for (std::size_t m = 0; m < moments.size(); ++m) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      result.add(after.moments[m].data()[i], moments[m][i], moments[m][i]);
    }
  }
}

}  // namespace

std::string describe(const WrongWork& wrong) {
  const std::string how =
      std::isfinite(wrong.error)
          ? fmt::format("that are wrong (relative error {:.2g}, tolerance {:.2g})", wrong.error, wrong.tolerance)
          : std::string("that are NaN or infinite but should be finite");
  const std::string before = wrong.last_right > 0
                                 ? fmt::format("what it sent was last found right in step {}", wrong.last_right)
                                 : std::string("nothing that it sent had been found right before");
  return fmt::format(
      "slave {} sent {} of stage {} {} in step {}; {}, so weights, snapshots and checkpoints since then may hold its "
      "errors",
      wrong.slave, wrong.what, wrong.stage, how, wrong.step, before);
}

void Verifier::begin_plan(const Plan& plan, const Node& master) {
  plan_ = plan;
  master_ = &master;
  tile_.reset();
  suspect_.reset();
  tiles_ = verifiable_tiles(plan, master.trunk(), master.graph());
}

const VerifiableTile* Verifier::begin_step(const Pass& pass) {
  tile_.reset();
  seen_.clear();
  if (!pass.training || tiles_.empty()) return nullptr;
  if (!suspect_ && (pass.step == 0 || pass.step % interval_ != 0)) return nullptr;
  pass_ = pass;
  tile_ =
      suspect_ ? *suspect_ : tiles_[Random(pass.seed, kTileStream).below(static_cast<std::uint32_t>(tiles_.size()))];
  for (const std::vector<int>* tasks : {&tile_->maps, &tile_->gradients, &tile_->parts}) {
    for (const int index : *tasks) seen_[index].resize(values_of(task(index), master_->trunk()));
  }
  return &*tile_;
}

void Verifier::see(int index, std::size_t first, std::span<const std::byte> values) {
  const auto found = seen_.find(index);
  if (found == seen_.end()) return;
  const NumberType type = wire_type(task(index), plan_);
  decode(type, values.data(), std::span(found->second).subspan(first, values_in(type, values.size())));
}

SampleRange Verifier::samples_of(const Task& task) const {
  return {task.micro_batch * micro_batch_size(plan_) + task.samples.first, task.samples.count};
}

/// The gradient with respect to the tile's maps, as the slave received it.
Tensor Verifier::gradient() const {
  if (tile_->gradients.empty()) return {};
  Tensor gradient(output_shape(master_->trunk()[tile_->stage], plan_.batch, tile_->filters.count));
  for (const int index : tile_->gradients) {
    const SampleRange samples = samples_of(task(index));
    std::ranges::copy(seen_.at(index), gradient.samples(samples.first, samples.count).begin());
  }
  return gradient;
}

/// Compares the values of a send task with the same channels of tensors whose channels begin at `first`.
Comparison Verifier::compare_sent(int index, const Tensor& own, const Tensor& disturbed, int first,
                                  double terms) const {
  const Task& sent = task(index);
  const NumberType type = wire_type(sent, plan_);
  const bool half = type == NumberType::fp16;
  Comparison result(terms, type == NumberType::int8 ? Comparison::kInt8 : 0.0, half ? 65504.0 : kLargestFloat,
                    half ? std::ldexp(1.0, -24) : kTiniest);
  const SampleRange samples = samples_of(sent);
  const std::size_t map = own.shape().sample_size() / static_cast<std::size_t>(own.shape().c);
  const std::size_t run = map * static_cast<std::size_t>(sent.filters.count);
  const std::size_t at = map * static_cast<std::size_t>(sent.filters.first - first);
  const float* values = seen_.at(index).data();
  for (int n = samples.first; n < samples.first + samples.count; ++n) {
    const auto right = own.sample(n).subspan(at, run);
    const auto other = disturbed.sample(n).subspan(at, run);
    for (std::size_t i = 0; i < run; ++i) result.add(*values++, right[i], other[i]);
  }
  return result;
}

/// Compares the parameters after the update, by the gradients that they imply. All gradients of a tile are judged as
/// one vector: some, as those of a bias before a batch norm, are rounding errors only and would differ at will.
void Verifier::compare_weights(const TileInputs& inputs, const TileResults& own, const TileResults& disturbed,
                               const ShardState& after) {
  const Stage& stage = master_->trunk()[tile_->stage];
  const Shape conv = conv_shape(stage, plan_.batch, tile_->filters.count);
  const double terms = static_cast<double>(conv.n) * conv.h * conv.w;
  const bool adam = update_.optimizer == Optimizer::adam;
  const double share = adam ? 1.0 - static_cast<double>(update_.momentum) : 1.0;
  Comparison gradients(terms, 0.0, kLargestFloat, kTiniest);
  Comparison rule(0.0, 0.0, kLargestFloat, kTiniest);
  Comparison averages(terms, 0.0, kLargestFloat, kTiniest);
  const std::vector<ParameterSpec> specs = parameters_of(stage, tile_->filters.count);
  for (std::size_t p = 0; p < specs.size(); ++p) {
    const Parameter& from = inputs.state.parameters[p];
    const Parameter& to = after.parameters[p];
    if (!specs[p].trained) {
      const Tensor& right = own.state.parameters[p].value;
      const Tensor& other = disturbed.state.parameters[p].value;
      for (std::size_t i = 0; i < right.size(); ++i) averages.add(to.value.data()[i], right.data()[i], other.data()[i]);
      continue;
    }
    std::vector<double> implied_gradient;
    for (std::size_t i = 0; i < from.value.size(); ++i) {
      implied_gradient.push_back(implied(update_, share, from.moments[0].data()[i], to.moments[0].data()[i]));
      const double decay = static_cast<double>(update_.weight_decay) * static_cast<double>(from.value.data()[i]);
      const auto total = [&](const std::vector<Tensor>& raw) {
        return static_cast<double>(update_.gradient_scale) * static_cast<double>(raw[p].data()[i]) + decay;
      };
      gradients.add(implied_gradient.back(), total(own.gradients), total(disturbed.gradients));
    }
    gradients.allow(kFloatRounding / share * (norm(from.moments[0]) + norm(to.moments[0])));
    compare_rule(update_, implied_gradient, from, to, rule);
  }
  report(gradients, "weights", static_cast<int>(tile_->stage));
  report(rule, "weights", static_cast<int>(tile_->stage));
  report(averages, "weights", static_cast<int>(tile_->stage));
}

void Verifier::report(const Comparison& result, const std::string& what, int stage) {
  if (found_ || !result.any() || !result.wrong()) return;
  const std::string& name = plan_.members[tile_->node];
  found_ = {.slave = name,
            .what = what,
            .stage = master_->trunk()[stage].name,
            .step = pass_.step,
            .error = result.relative_error(),
            .tolerance = result.relative_tolerance(),
            .last_right = right_[name]};
}

/// Returns null, and forgets the tile, if the device cannot hold it.
std::unique_ptr<TileRun> Verifier::compile() {
  const std::vector<Stage>& trunk = master_->trunk();
  try {
    return std::make_unique<TileRun>(*tile_, trunk, plan_.batch, device_);
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error& error) {
    tell_(fmt::format(
        "--verify: the filters {} to {} of stage {} on slave {} will not be checked, because this machine's "
        "device cannot compute them: {}",
        tile_->filters.first, tile_->filters.first + tile_->filters.count - 1, trunk[tile_->stage].name,
        plan_.members[tile_->node], error.what()));
    std::erase_if(tiles_, [this](const VerifiableTile& each) {
      return each.node == tile_->node && each.stage == tile_->stage && each.filters.first == tile_->filters.first;
    });
    return nullptr;
  }
}

std::optional<WrongWork> Verifier::judge(const ShardState& before, const ShardState& after) {
  found_.reset();
  if (const std::unique_ptr<TileRun> run = compile()) compare(*run, before, after);
  seen_.clear();
  const VerifiableTile tile = *std::exchange(tile_, std::nullopt);
  // No rounding makes a value infinite or NaN. Other values must be wrong in two steps that follow each other.
  const bool sure = found_ && (suspect_ || !std::isfinite(found_->error));
  suspect_.reset();
  if (found_ && !sure) suspect_ = tile;
  return sure ? found_ : std::nullopt;
}

/// Compares all that the slave sent with the results from the same inputs, and with those from disturbed inputs until
/// its values are right.
void Verifier::compare(TileRun& run, const ShardState& before, const ShardState& after) {
  const TileInputs inputs{.maps = maps_read(*tile_, plan_, *master_), .gradient = gradient(), .state = before};
  const TileResults own = run.run(inputs, pass_, update_);
  for (std::uint64_t i = 0; i < kDisturbances; ++i) {
    found_.reset();
    compare(inputs, own, run.run(disturbed(inputs, pass_.seed + i), pass_, update_), after);
    if (!found_) break;
  }
  if (found_) return;
  ++verified_;
  right_[plan_.members[tile_->node]] = pass_.step;
}

void Verifier::compare(const TileInputs& inputs, const TileResults& own, const TileResults& disturbed,
                       const ShardState& after) {
  const Stage& stage = master_->trunk()[tile_->stage];
  const double window = static_cast<double>(stage.conv.kernel_h) * stage.conv.kernel_w;
  for (const int index : tile_->maps) {
    const double terms = window * stage.channels / stage.conv.groups;
    report(compare_sent(index, own.maps, disturbed.maps, tile_->filters.first, terms), "maps", task(index).stage);
  }
  for (const int index : tile_->parts) {
    const int read = task(index).stage;
    report(compare_sent(index, own.parts.at(read), disturbed.parts.at(read), 0, window * tile_->filters.count),
           "gradients", read);
  }
  if (inputs.gradient.size() > 0) compare_weights(inputs, own, disturbed, after);
}

}  // namespace convoy
