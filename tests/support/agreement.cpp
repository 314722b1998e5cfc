#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/joint_statistics.hpp"
#include "kernels/reference/device.hpp"
#include "tests/support/host_shard.hpp"
#include "tests/support/stage_cases.hpp"
#include "tests/support/states.hpp"

namespace convoy {
namespace {

constexpr Pass kTraining{.training = true, .seed = 77};
/// An update with Adam if the stage has two moments, else with SGD. Adam's epsilon is large, so that it does not
/// amplify small errors.
UpdateStep step_of(const Stage& stage) {
  UpdateStep step{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 0.01F, .epsilon = 0.5F};
  if (stage.moments == moments_of(Optimizer::adam)) step.optimizer = Optimizer::adam;
  return step;
}

/// The results of one case on one device.
struct Results {
  Tensor tested, output, input_gradient;
  std::vector<Tensor> added_gradients;
  std::vector<Tensor> gradients;
  ShardState start, end;
  bool finite = true;  ///< whether the shard calls its values finite at the end
};

Results compute(Device& device, const ShardSpec& spec) {
  HostShard shard(device, spec);
  shard.shard().set_state(random_state(spec));
  shard.connect(random_added(spec));
  Results results;
  results.start = shard.shard().state();
  const Tensor input = random_input(spec);
  const Tensor gradient = random_output_gradient(spec);
  results.tested = shard.forward(input.span(), {});
  for (int step = 0; step < 3; ++step) {
    const Tensor output = shard.forward(input.span(), kTraining);
    const Tensor* input_gradient = shard.backward(gradient.span());
    EXPECT_EQ(input_gradient != nullptr, spec.input_gradient);
    if (step == 0) {
      results.output = output;
      if (input_gradient != nullptr) results.input_gradient = *input_gradient;
      results.gradients = shard.shard().gradients();
      results.added_gradients = shard.added_gradients();
    }
    shard.shard().update(step_of(spec.stage));
  }
  results.end = shard.shard().state();
  EXPECT_TRUE(shard.shard().finite());
  return results;
}

double largest(const Tensor& tensor) {
  double most = 0.0;
  for (const float value : tensor.span()) most = std::max(most, static_cast<double>(std::abs(value)));
  return most;
}

/// Expects |got - expected| <= 4 epsilon sqrt(n) scale. The rounding errors of a sum of n products add up like a random
/// walk, and each is relative to the sum's largest value.
void expect_near(const Tensor& got, const Tensor& expected, double epsilon, double reduction, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const double tolerance = 4.0 * epsilon * std::sqrt(reduction) * std::max(1.0, largest(expected));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got.data()[i], expected.data()[i], tolerance) << what << " " << i;
  }
}

void expect_same_bits(const Tensor& a, const Tensor& b, const char* what) {
  EXPECT_TRUE(std::equal(a.span().begin(), a.span().end(), b.span().begin(), b.span().end())) << what;
}

void expect_near(const Results& got, const Results& expected, const ShardSpec& spec, double epsilon) {
  const Stage& stage = spec.stage;
  const Shape conv = conv_shape(stage, spec.batch, spec.filters.count);
  const double taps = static_cast<double>(weight_shape(stage, 1).sample_size()) + 1;
  const double places = static_cast<double>(conv.n) * conv.h * conv.w + 1;
  const double senders = static_cast<double>(conv.c) * stage.conv.kernel_h * stage.conv.kernel_w + 1;

  expect_near(got.tested, expected.tested, epsilon, taps, "output in testing");
  expect_near(got.output, expected.output, epsilon, taps, "output in training");
  const std::vector<ParameterSpec> parameters = parameters_of(stage, spec.filters.count);
  ASSERT_EQ(got.gradients.size(), parameters.size());
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    expect_near(got.gradients[p], expected.gradients[p], epsilon, taps + places, "gradient by " + parameters[p].name);
  }
  if (spec.input_gradient)
    expect_near(got.input_gradient, expected.input_gradient, epsilon, taps + senders, "input gradient");
  for (std::size_t i = 0; i < expected.added_gradients.size(); ++i) {
    expect_near(got.added_gradients.at(i), expected.added_gradients[i], epsilon, taps + places, "gradient by a sum");
  }
  // In three steps, the error of each gradient enters with the learning rate and changes the next step's gradient.
  const double steps = 9.0 * (taps + places);
  const std::vector<const Tensor*> ours = tensors_of(got.end);
  const std::vector<const Tensor*> theirs = tensors_of(expected.end);
  for (std::size_t t = 0; t < theirs.size(); ++t) {
    expect_near(*ours.at(t), *theirs[t], epsilon, steps, fmt::format("tensor {} of the state after three steps", t));
  }
}

/// A shard that is given the gradients of another updates to the same bits as the other, whatever its own gradients
/// were.
void expect_gradients_taken(Device& device, const ShardSpec& spec, const std::vector<Tensor>& gradients) {
  HostShard computing(device, spec);
  computing.shard().set_state(random_state(spec));
  computing.connect(random_added(spec));
  computing.forward(random_input(spec).span(), kTraining);
  computing.backward(random_output_gradient(spec).span());
  HostShard given(device, spec);
  given.shard().set_state(computing.shard().state());
  given.shard().set_gradients(gradients);
  const std::vector<Tensor> taken = given.shard().gradients();
  for (std::size_t p = 0; p < gradients.size(); ++p) expect_same_bits(taken.at(p), gradients[p], "gradient given");
  computing.shard().update(step_of(spec.stage));
  given.shard().update(step_of(spec.stage));
  EXPECT_TRUE(same_bits(given.shard().state(), computing.shard().state())) << "update by gradients that were given";
}

// ---- NaN -----------------------------------------------------------------------------------------------------------

/// One step of a shard with one value that is NaN. The update finds the values that it leaves.
struct Poisoned {
  ShardState state;
  Tensor input, output_gradient;
  std::vector<Tensor> added;
};

Results compute(Device& device, const ShardSpec& spec, const Poisoned& with) {
  HostShard shard(device, spec);
  shard.shard().set_state(with.state);
  shard.connect(with.added);
  Results results;
  results.tested = shard.forward(with.input.span(), {});
  results.output = shard.forward(with.input.span(), kTraining);
  if (const Tensor* gradient = shard.backward(with.output_gradient.span())) results.input_gradient = *gradient;
  results.gradients = shard.shard().gradients();
  results.added_gradients = shard.added_gradients();
  shard.shard().update(step_of(spec.stage));
  results.end = shard.shard().state();
  results.finite = shard.shard().finite();
  shard.shard().set_state(random_state(spec));
  EXPECT_TRUE(shard.shard().finite()) << "with another state";
  return results;
}

/// Expects NaN wherever the reference has NaN. More of them are no mistake: some devices multiply the padding, too.
void expect_kept(const Tensor& got, const Tensor& expected, const char* what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isnan(got.data()[i]) || !std::isnan(expected.data()[i]))
        << what << " " << i << " is " << got.data()[i] << " where NaN is due";
  }
}

void expect_nan_kept(Device& device, const ShardSpec& spec, const Poisoned& with) {
  const Results expected = compute(*make_reference64_device(), spec, with);
  const Results got = compute(device, spec, with);
  const std::vector<const Tensor*> end = tensors_of(got.end);
  EXPECT_EQ(got.finite, std::ranges::all_of(end, [](const Tensor* each) { return all_finite(each->span()); }));
  expect_kept(got.tested, expected.tested, "output in testing");
  expect_kept(got.output, expected.output, "output in training");
  if (spec.input_gradient) expect_kept(got.input_gradient, expected.input_gradient, "input gradient");
  for (std::size_t p = 0; p < expected.gradients.size(); ++p) {
    expect_kept(got.gradients.at(p), expected.gradients[p], "gradient by a parameter");
  }
  for (std::size_t i = 0; i < expected.added_gradients.size(); ++i) {
    expect_kept(got.added_gradients.at(i), expected.added_gradients[i], "gradient by a sum");
  }
}

/// No value of a step becomes a number because a device forgets that it depends on a NaN: in the input, in a parameter,
/// in maps to add, or in the gradient by the output.
void expect_nan_kept(Device& device, const ShardSpec& spec) {
  const Poisoned healthy{random_state(spec), random_input(spec), random_output_gradient(spec), random_added(spec)};
  const auto poisoned = [&](auto choose, const std::string& where) {
    SCOPED_TRACE("with NaN in " + where);
    Poisoned with = healthy;
    const std::span<float> values = choose(with).span();
    values[values.size() / 2] = NAN;
    expect_nan_kept(device, spec, with);
  };
  poisoned([](Poisoned& with) -> Tensor& { return with.input; }, "the input");
  poisoned([](Poisoned& with) -> Tensor& { return with.output_gradient; }, "the output's gradient");
  for (std::size_t i = 0; i < healthy.added.size(); ++i) {
    poisoned([i](Poisoned& with) -> Tensor& { return with.added[i]; }, "maps to add");
  }
  const std::vector<ParameterSpec> parameters = parameters_of(spec.stage, spec.filters.count);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    poisoned([p](Poisoned& with) -> Tensor& { return with.state.parameters[p].value; }, parameters[p].name);
  }
}

// ---- rows ----------------------------------------------------------------------------------------------------------

/// A shard with some samples of each micro-batch, and its tensors.
class RowShard {
 public:
  RowShard(Device& device, ShardSpec whole, SampleRange samples, const Poisoned& with)
      : spec_(row_of(std::move(whole), samples)),
        shard_(device.compile(spec_)),
        input_(shard_->make_input()),
        gradient_(shard_->make_output_gradient()) {
    shard_->set_state(with.state);
    input_->write(own(with.input).span());
    gradient_->write(own(with.output_gradient).span());
    for (const Tensor& maps : with.added) {
      added_.push_back(shard_->make_added(added_.size()));
      added_.back()->write(own(maps).span());
      shard_->connect(added_.size() - 1, *added_.back());
    }
  }

  Shard& shard() { return *shard_; }
  int samples() const { return spec_.batch / spec_.micro_batches; }
  const DeviceTensor& forward(const Pass& pass) { return shard_->forward(*input_, pass); }
  std::vector<float> slopes() { return shard_->slopes(*gradient_); }
  const DeviceTensor* backward() { return shard_->backward(*gradient_); }
  /// Copies the shard's samples to their places in the maps of the whole batch.
  void put(const DeviceTensor& part, Tensor& whole) const {
    Tensor values(part.shape());
    part.read(values.span());
    for (int n = 0; n < spec_.batch; ++n) {
      std::ranges::copy(values.sample(n), whole.sample(origin_of(spec_).number_in_batch(n)).begin());
    }
  }

 private:
  static ShardSpec row_of(ShardSpec whole, SampleRange samples) {
    whole.whole_micro_batch = whole.batch / whole.micro_batches;
    whole.first_sample = samples.first;
    whole.batch = samples.count * whole.micro_batches;
    return whole;
  }
  Tensor own(const Tensor& whole) const {
    Shape shape = whole.shape();
    shape.n = spec_.batch;
    Tensor part(shape);
    for (int n = 0; n < spec_.batch; ++n) {
      std::ranges::copy(whole.sample(origin_of(spec_).number_in_batch(n)), part.sample(n).begin());
    }
    return part;
  }

  ShardSpec spec_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<DeviceTensor> input_;
  std::unique_ptr<DeviceTensor> gradient_;
  std::vector<std::unique_ptr<DeviceTensor>> added_;
};

using Rows = std::vector<std::unique_ptr<RowShard>>;

/// Joins numbers that find() returns of each row.
template <class Join, class Find>
std::vector<double> joined(const Rows& rows, Join join, Find find) {
  std::vector<RowStatistics> all;
  for (const auto& row : rows) all.push_back({row->samples(), find(*row)});
  return join(all);
}

void train_forward(const Rows& rows, const ShardSpec& spec, Tensor& output) {
  for (const auto& row : rows) row->put(row->forward(kTraining), output);
  for (int norm = 0; norm < batch_norms(spec.stage); ++norm) {
    const std::vector<double> joint = joined(rows, join_moments, [](RowShard& row) { return row.shard().moments(); });
    for (const auto& row : rows) row->put(row->shard().normalise(joint), output);
  }
}

void train_backward(const Rows& rows, const ShardSpec& spec, Results& results) {
  for (int norm = 0; norm < batch_norms(spec.stage); ++norm) {
    const std::vector<double> joint = joined(rows, join_slopes, [](RowShard& row) { return row.slopes(); });
    for (const auto& row : rows) row->shard().take_slopes(joint);
  }
  results.gradients.clear();
  for (const auto& row : rows) {
    const DeviceTensor* gradient = row->backward();
    if (gradient != nullptr) row->put(*gradient, results.input_gradient);
    for (std::size_t i = 0; i < results.added_gradients.size(); ++i) {
      row->put(row->shard().added_gradient(i), results.added_gradients[i]);
    }
    const std::vector<Tensor> part = row->shard().gradients();
    if (results.gradients.empty()) results.gradients.resize(part.size());
    for (std::size_t p = 0; p < part.size(); ++p) {
      Tensor& sum = results.gradients[p];
      if (sum.size() == 0) sum = Tensor(part[p].shape(), 0.0F);
      for (std::size_t i = 0; i < sum.size(); ++i) sum.data()[i] += part[p].data()[i];
    }
  }
}

/// Trains shards that each have some samples, as the members of a plan do.
Results compute_in_rows(Device& device, const ShardSpec& spec, const Poisoned& with, int steps) {
  Rows rows;
  for (const SampleRange samples : {SampleRange{0, 3}, SampleRange{3, 2}, SampleRange{5, 1}}) {
    rows.push_back(std::make_unique<RowShard>(device, spec, samples, with));
  }
  Results results;
  const Shape output = output_shape(spec.stage, spec.batch, spec.filters.count);
  results.tested = Tensor(output);
  for (const auto& row : rows) row->put(row->forward({}), results.tested);
  Results last;
  for (int step = 0; step < steps; ++step) {
    last.output = Tensor(output);
    last.input_gradient = spec.input_gradient ? Tensor(input_shape(spec.stage, spec.batch)) : Tensor();
    last.added_gradients.clear();
    for (const Tensor& maps : with.added) last.added_gradients.emplace_back(maps.shape());
    train_forward(rows, spec, last.output);
    train_backward(rows, spec, last);
    for (const auto& row : rows) {
      row->shard().set_gradients(last.gradients);
      row->shard().update(step_of(spec.stage));
    }
    if (step > 0) continue;
    last.tested = results.tested;
    results = last;
  }
  results.end = rows.front()->shard().state();
  const bool same = same_bits(results.end, rows.back()->shard().state());
  EXPECT_TRUE(same || steps == 1) << "all rows have the same state, unless it has NaN";
  return results;
}

/// Shards with three, two and one of each six samples, in two micro-batches, compute the same as one shard with all
/// samples, and the same bits in a second run.
void expect_rows_agree(Device& device, ShardSpec spec, double epsilon, bool nan) {
  spec.batch = 12;
  const Poisoned with{random_state(spec), random_input(spec), random_output_gradient(spec), random_added(spec)};
  Results expected = compute(*make_reference64_device(), spec);
  spec.micro_batches = 2;
  const Results first = compute_in_rows(device, spec, with, 3);
  expect_near(first, expected, spec, epsilon);
  const Results again = compute_in_rows(device, spec, with, 1);
  expect_same_bits(again.output, first.output, "output in rows, again");
  for (std::size_t p = 0; p < first.gradients.size(); ++p) {
    expect_same_bits(again.gradients[p], first.gradients[p], "gradient in rows, again");
  }
  if (!nan) return;
  for (const bool backward : {false, true}) {
    SCOPED_TRACE(backward ? "with NaN in the gradient of one row" : "with NaN in the input of one row");
    Poisoned poisoned = with;
    Tensor& ill = backward ? poisoned.output_gradient : poisoned.input;
    std::ranges::fill(ill.sample(3), NAN);
    ShardSpec whole = spec;
    whole.micro_batches = 1;
    expected = compute(*make_reference64_device(), whole, poisoned);
    const Results got = compute_in_rows(device, spec, poisoned, 1);
    expect_kept(got.output, expected.output, "output in training");
    if (spec.input_gradient) expect_kept(got.input_gradient, expected.input_gradient, "input gradient");
    for (std::size_t p = 0; p < expected.gradients.size(); ++p) {
      expect_kept(got.gradients.at(p), expected.gradients[p], "gradient by a parameter");
    }
  }
}

}  // namespace

void expect_agreement(Device& device, const ShardSpec& spec, double epsilon, bool nan) {
  const auto reference = make_reference64_device();
  const Results expected = compute(*reference, spec);
  const Results got = compute(device, spec);
  EXPECT_TRUE(same_bits(got.start, random_state(spec))) << "the state must be read back unchanged";
  expect_near(got, expected, spec, epsilon);

  const Results again = compute(device, spec);
  expect_same_bits(got.output, again.output, "output of a second run");
  EXPECT_TRUE(same_bits(got.end, again.end)) << "a second run must give the same state";
  if (spec.input_gradient) expect_same_bits(got.input_gradient, again.input_gradient, "input gradient of a second run");

  expect_gradients_taken(device, spec, got.gradients);
  if (nan) expect_nan_kept(device, spec);

  SCOPED_TRACE("in micro-batches of one sample");
  ShardSpec one_by_one = spec;
  one_by_one.micro_batches = spec.batch;
  const Results parted = compute(device, one_by_one);
  expect_near(parted, expected, spec, epsilon);
  if (spec.waits_for_batch()) {
    SCOPED_TRACE("in rows");
    return expect_rows_agree(device, spec, epsilon, nan);
  }
  // Backward of the first micro-batch may begin before forward of the last.
  HostShard shard(device, one_by_one);
  shard.shard().set_state(random_state(spec));
  shard.connect(random_added(spec));
  shard.forward_and_backward(random_input(spec).span(), random_output_gradient(spec).span(), kTraining);
  expect_same_bits(shard.output(), parted.output, "output between ways back");
  if (spec.input_gradient) expect_same_bits(shard.input_gradient(), parted.input_gradient, "input gradient in turns");
  for (std::size_t p = 0; p < parted.gradients.size(); ++p) {
    expect_same_bits(shard.shard().gradients()[p], parted.gradients[p], "gradient after turns");
  }
}

}  // namespace convoy
