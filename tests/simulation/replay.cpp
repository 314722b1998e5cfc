#include "tests/simulation/replay.hpp"

#include <deque>
#include <map>

#include "devices/registry.hpp"
#include "exchange/node.hpp"
#include "tests/support/states.hpp"
#include "train/learner.hpp"
#include "train/local_trunk.hpp"

namespace convoy::simulation {
namespace {

/// The trunk on all nodes of a plan, one after another.
class NodesTrunk : public Trunk {
 public:
  NodesTrunk(std::vector<Stage> stages, std::shared_ptr<const Plan> plan)
      : stages_(std::move(stages)), device_(make_device("reference", {.threads = 1})) {
    make(std::move(plan));
  }

  void begin(const Images& images, const Pass& pass) override {
    settle();
    given_ = 0;
    for (const auto& node : nodes_)
      node->begin({.pass = pass, .scales = images.scales}, node.get() == &master() ? &images.pixels : nullptr);
  }
  std::optional<SampleRange> next_outputs() override {
    if (given_ == plan_->micro_batches) return std::nullopt;
    run_until([this] { return master().outputs_ready() > given_; });
    const int count = plan_->batch / plan_->micro_batches;
    return SampleRange{count * given_++, count};
  }
  std::size_t output_count() const override { return outputs_of(stages_).size(); }
  const Tensor& output(std::size_t number) const override { return master().output(number); }
  using Trunk::backward;
  void backward(const std::vector<const Tensor*>& gradients, SampleRange samples) override {
    const int count = plan_->batch / plan_->micro_batches;
    for (int first = samples.first; first < samples.first + samples.count; first += count) {
      master().give_gradients(gradients, first / count);
    }
  }
  double gradient_squares() override {
    while (one_round()) continue;
    // In the order in which the master adds them: its own last.
    double sum = 0.0;
    for (std::size_t i = 0; i + 1 < nodes_.size(); ++i) sum += nodes_[i]->gradient_squares();
    return shares_ ? sum + master().gradient_squares() : sum;
  }
  void update(const UpdateStep& step) override {
    settle();
    for (const auto& node : nodes_) node->begin({.update = step}, nullptr);
    settle();
  }
  std::optional<Broken> broken() const override {
    const bool broken = std::ranges::any_of(nodes_, [](const auto& node) { return !node->broken_stages().empty(); });
    return broken ? std::optional(Broken{.layer = "a stage"}) : std::nullopt;
  }
  std::vector<ShardState> snapshot() override {
    settle();
    std::vector<ShardState> states;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      ShardState whole = zero_state(stages_[s], stages_[s].conv.filters);
      for (const Assignment& shard : owners_of(plan_->stages[s])) {
        paste(nodes_[shard.member]->state(s, shard.filters), shard.filters, whole);
      }
      states.push_back(std::move(whole));
    }
    return states;
  }
  void begin_snapshot(bool) override {}
  void begin_changes(const std::vector<ShardState>&, bool) override {}
  std::optional<std::vector<ShardState>> take_snapshot() override { return std::nullopt; }
  void begin_gradients() override {}
  void begin_load(const std::vector<ShardState>& states) override {
    settle();
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const FilterRange held = held_filters(*plan_, master().graph(), s, static_cast<int>(i));
        if (held.count > 0 && has_parameters(stages_[s])) nodes_[i]->set_state(s, held, slice(states[s], held));
      }
    }
  }
  std::vector<MemberTime> take_times() override { return {}; }

 private:
  void make(std::shared_ptr<const Plan> plan) {
    plan_ = std::move(plan);
    nodes_.clear();
    queues_.clear();
    const TaskGraph graph = make_task_graph(*plan_, stages_);
    shares_ = has_master(*plan_);
    for (int i = 0; i < graph.nodes; ++i) {
      const Carrier carrier{.send =
                                [this, i](Parcel&& parcel) {
                                  queues_[{i, parcel.to}].push_back(std::move(parcel));
                                },
                            .grant = [this](int to) { nodes_[to]->grant(); }};
      nodes_.push_back(std::make_unique<Node>(*plan_, stages_, i, device_.get(), carrier));
    }
  }
  Node& master() const { return *nodes_.back(); }
  void settle() {
    run_until([this] { return std::ranges::all_of(nodes_, [](const auto& node) { return node->finished(); }); });
  }

  bool one_round() {
    bool worked = false;
    for (auto& [way, queue] : queues_) {
      while (!queue.empty()) {
        const Parcel parcel = std::move(queue.front());
        queue.pop_front();
        nodes_[parcel.to]->receive(way.first, parcel.task, parcel.first, parcel.bytes);
        worked = true;
      }
    }
    for (const auto& node : nodes_) {
      while (node->work()) worked = true;
    }
    return worked;
  }
  template <class Over>
  void run_until(Over over) {
    while (!over()) {
      if (!one_round()) {
        invariant(over(), "nodes that have nothing to do are done");
        return;
      }
    }
  }

  std::vector<Stage> stages_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<const Plan> plan_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::pair<int, int>, std::deque<Parcel>> queues_;
  bool shares_ = false;
  int given_ = 0;
};

/// Does each step under the plan that it had.
class Replay : public Learner {
 public:
  Replay(const Kept& kept, const Cut& cut, int batch)
      : kept_(kept),
        cut_(cut),
        device_(make_device("reference", {.threads = 1})),
        plan_(kept.steps.front().plan),
        trunk_(make_trunk()),
        net_(*trunk_, cut, batch, 1) {}

  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override {
    const KeptStep& step = kept_.steps.at(losses_.size());
    use(step.plan);
    const BatchLoss loss = net_.accumulate(images, labels, pass);
    losses_.push_back(loss.sum);
    return loss;
  }
  double gradient_squares() override { return net_.gradient_squares(); }
  void settle() override { net_.settle(); }
  std::optional<Broken> broken() const override { return net_.broken(); }
  void apply(const UpdateStep& step, const Progress& after) override { net_.apply(step, after); }
  const Tensor& outputs(const Images& images) override {
    if (const KeptStep* kept = test(tested_[losses_.size()].size())) use(kept->plan);
    return net_.outputs(images);
  }
  BatchLoss test_loss(const Labels& labels, int count) override {
    const BatchLoss loss = net_.test_loss(labels, count);
    std::vector<double>& tested = tested_[losses_.size()];
    const KeptStep* kept = test(tested.size());
    if (kept != nullptr && kept->loss != loss.sum && difference_.empty()) {
      difference_ = fmt::format("the loss of batch {} of the test after step {} is {} instead of {}", tested.size() + 1,
                                losses_.size(), kept->loss, loss.sum);
    }
    tested.push_back(loss.sum);
    return loss;
  }
  std::shared_ptr<const ModelState> state() override { return net_.state(); }
  void load(TrainingState from) override { net_.load(std::move(from)); }
  std::vector<MemberTime> take_times() override { return {}; }

  const std::vector<double>& losses() const { return losses_; }
  /// How a test differs from what the run has kept of it; empty if none does.
  const std::string& difference() const { return difference_; }

 private:
  /// As Cluster makes it.
  std::unique_ptr<Trunk> make_trunk() {
    if (!is_master_alone(*plan_)) {
      return std::make_unique<NodesTrunk>(cut_.trunk, plan_);
    }
    return std::make_unique<LocalTrunk>(cut_.trunk, input_shape(cut_.trunk.front(), plan_->batch), *device_);
  }
  /// A batch of the test after the current step; null if the run has not kept it.
  const KeptStep* test(std::size_t batch) const {
    const auto kept = kept_.tests.find(losses_.size());
    return kept == kept_.tests.end() || batch >= kept->second.size() ? nullptr : &kept->second[batch];
  }
  /// Takes the state along.
  void use(const std::shared_ptr<const Plan>& plan) {
    if (plan == plan_ || *plan == *plan_) return;
    const std::vector<ShardState> states = trunk_->snapshot();
    plan_ = plan;
    trunk_ = make_trunk();
    trunk_->load(states);
    net_.use(*trunk_);
  }

  const Kept& kept_;
  const Cut& cut_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Trunk> trunk_;
  NetLearner net_;
  std::vector<double> losses_;
  std::map<std::size_t, std::vector<double>> tested_;  ///< as Kept::tests
  std::string difference_;
};

bool same_bits(const Tensor& a, const Tensor& b) { return std::ranges::equal(a.span(), b.span()); }

std::string difference(const ModelState& got, const ModelState& expected) {
  for (std::size_t s = 0; s < expected.trunk.size(); ++s) {
    if (!convoy::same_bits(got.trunk.at(s), expected.trunk[s])) return fmt::format("the weights of stage {} differ", s);
  }
  for (std::size_t d = 0; d < expected.head.size(); ++d) {
    const DenseState<float>& a = got.head.at(d);
    const DenseState<float>& b = expected.head[d];
    if (!same_bits(a.weights.value, b.weights.value) || !same_bits(a.bias.value, b.bias.value)) {
      return fmt::format("the weights of dense layer {} differ", d);
    }
  }
  return "";
}

}  // namespace

std::string difference_from_replay(const Kept& kept, const Cut& cut, Training training, const ModelState& start) {
  if (kept.steps.empty()) return "";
  training.max_steps = static_cast<long>(kept.steps.size());
  Replay replay(kept, cut, training.net.training.batch);
  TrainingState expected;
  train(training, replay, {std::make_shared<const ModelState>(start)}, {},
        [&](const TrainingState& state) { expected = state; });
  for (std::size_t i = 0; i < kept.steps.size(); ++i) {
    if (kept.steps[i].loss == replay.losses()[i]) continue;
    return fmt::format("the loss of step {} is {} instead of {}", i + 1, kept.steps[i].loss, replay.losses()[i]);
  }
  if (!replay.difference().empty()) return replay.difference();
  if (!(kept.state.progress == expected.progress)) return "training does not stand where the steps have brought it";
  return difference(*kept.state.model, *expected.model);
}

}  // namespace convoy::simulation
