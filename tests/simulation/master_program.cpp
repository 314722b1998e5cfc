#include "tests/simulation/master_program.hpp"

#include <filesystem>
#include <fstream>

#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "tests/simulation/timed_device.hpp"

namespace convoy::simulation {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFingerprint = "simulated";

std::string written(const std::string& file, const std::string& text) {
  std::ofstream(file) << text;
  return file;
}

/// Some images of noise.
ImageSet images_of(const FeatureShape& shape, int count, std::uint64_t stream) {
  ImageSet set{.shape = shape, .pixels = {}, .labels = {}};
  Random random(9, stream);
  for (int i = 0; i < count * shape.size(); ++i) set.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  for (int i = 0; i < count; ++i) set.labels.push_back(static_cast<std::uint16_t>(random.below(3)));
  return set;
}

DataSet data_for(const Net& net) {
  constexpr int kTrainingImages = 80;
  constexpr int kTestImages = 6;
  return {.name = "noise",
          .classes = 3,
          .training = images_of(net.input, kTrainingImages, 1),
          .test = images_of(net.input, kTestImages, 2)};
}

}  // namespace

void change_bit(const std::string& path) {
  // In the fraction of a weight: a state of an optimiser may be zero, and a bit of zero makes no difference.
  const auto place = static_cast<std::streamoff>(fs::file_size(path) / 12 * 4 + 2);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(place);
  const auto byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(place);
  file.put(byte);
}

/// Follows what the master tells people.
class Run::Watcher : public Observer {
 public:
  Watcher(Run& run, Log& log) : run_(run), log_(log) {}
  void on_notice(const std::string& text) override {
    log_.line("notice: {}", text);
    if (text.starts_with("waiting for ")) run_.waits = true;
    if (!text.starts_with("slave ") || !text.ends_with(" left")) return;
    const std::string rest = text.substr(6);
    run_.on_loss(rest.substr(0, rest.find(' ')), text);
  }
  void on_plan(const Plan& plan) override {
    run_.members = plan.members;
    run_.waits = false;
    log_.line("plan of {} members, {}", plan.members.size(), convoy::describe(plan));
  }

 private:
  Run& run_;
  Log& log_;
};

/// Keeps the record of the steps beside a learner.
class Recorder : public Learner {
  /// Forgets the steps that the learner goes back over.
  template <class Call>
  decltype(auto) watched(const Call& call) {
    try {
      return call();
    } catch (const Rewound& rewound) {
      run_.forget_steps_after(run_.steps_at(rewound.to()));
      batches_tested_ = 0;
      throw;
    }
  }

 public:
  Recorder(Run& run, Cluster& cluster, Learner& learner, Actor& actor, Log& log)
      : run_(run), cluster_(cluster), learner_(learner), actor_(actor), log_(log), random_(run.scenario_.seed, 4) {}

  BatchLoss accumulate(const Images& images, const Labels& labels, const Pass& pass) override {
    return watched([&] {
      const BatchLoss loss = learner_.accumulate(images, labels, pass);
      const bool alone = look_at_plan();
      step_ = {plan_, loss.sum};
      batches_tested_ = 0;
      // A master that trains alone computes everything.
      actor_.work(run_.scenario_.master_pace.call * (alone ? 20 : 1));
      return loss;
    });
  }
  void settle() override {
    watched([&] { learner_.settle(); });
  }
  std::optional<Broken> broken() const override { return learner_.broken(); }
  double gradient_squares() override {
    return watched([&] { return learner_.gradient_squares(); });
  }
  void apply(const UpdateStep& step, const Progress& after) override {
    watched([&] { learner_.apply(step, after); });
    run_.kept_.steps.push_back(step_);
    log_.line("step {} done, loss {}", run_.kept_.steps.size(), step_.loss);
  }
  const Tensor& outputs(const Images& images) override {
    return watched([&]() -> const Tensor& { return learner_.outputs(images); });
  }
  BatchLoss test_loss(const Labels& labels, int count) override {
    const BatchLoss loss = learner_.test_loss(labels, count);
    look_at_plan();
    std::vector<KeptStep>& test = run_.kept_.tests[run_.kept_.steps.size()];
    test.resize(batches_tested_++);
    test.push_back({plan_, loss.sum});
    log_.line("tested, loss {}", loss.sum);
    return loss;
  }
  std::shared_ptr<const ModelState> state() override {
    return watched([&] { return learner_.state(); });
  }
  void load(TrainingState from) override { learner_.load(std::move(from)); }
  std::vector<MemberTime> take_times() override { return learner_.take_times(); }

 private:
  /// Returns whether the master is the plan's only member.
  bool look_at_plan() {
    const Plan& plan = cluster_.plan();
    if (!plan_ || !(*plan_ == plan)) plan_ = std::make_shared<const Plan>(plan);
    return is_master_alone(plan);
  }

  Run& run_;
  Cluster& cluster_;
  Learner& learner_;
  Actor& actor_;
  Log& log_;
  Random random_;
  std::shared_ptr<const Plan> plan_;
  KeptStep step_;
  std::size_t batches_tested_ = 0;  ///< since the last step
};

Run::Run(const Scenario& scenario, const std::string& folder)
    : scenario_(scenario),
      folder_(folder),
      net_options_{.net = written(folder + "/net.yaml", scenario.net),
                   .device = "reference",
                   .device_options = {.threads = 1},
                   .seed = scenario.seed},
      net_(load_net(net_options_)),
      cut_(cut(net_)),
      data_(data_for(net_)),
      batches_(data_, Part::training, net_.training.batch, scenario.seed, {}),
      tests_(data_, Part::test, net_.training.batch, scenario.seed, {}) {}

long Run::steps_at(const Progress& progress) const {
  return static_cast<long>(progress.epoch) * batches_.count() + progress.batch;
}

void Run::forget_steps_after(long steps) {
  invariant(steps <= static_cast<long>(kept_.steps.size()), "a run goes back, never forward");
  kept_.steps.resize(static_cast<std::size_t>(steps));
  kept_.tests.erase(kept_.tests.upper_bound(kept_.steps.size()), kept_.tests.end());
}

Training Run::training() const {
  return {.net = net_,
          .training = batches_,
          .test = tests_,
          .seed = scenario_.seed,
          .checkpoint_seconds = scenario_.checkpoint_seconds,
          .stop = stop};
}

void Run::save(const TrainingState& state, Log& log) {
  kept_.state = state;
  try {
    // A folder that does not exist stands for a full disk.
    write_checkpoint(
        disk_full ? folder_ + "/full" : folder_, cut_, state,
        {.fingerprint = kFingerprint, .length = {net_.training.epochs, batches_.count(), net_.training.batch}});
    log.line("checkpoint after step {}", steps_at(state.progress));
  } catch (const Error&) {
    log.line("the checkpoint could not be written");
  }
}

TrainingState Run::start(Log& log) {
  TrainingState state{std::make_shared<const ModelState>(
      ModelState{initial_trunk(cut_, scenario_.seed), initial_heads(cut_, scenario_.seed)})};
  if (has_checkpoint(folder_)) {
    std::string notice;
    state = read_checkpoint(folder_, cut_, notice);
    log.line("going on from the checkpoint after step {}{}", steps_at(state.progress),
             notice.empty() ? "" : ", the last but one");
  }
  forget_steps_after(steps_at(state.progress));
  return state;
}

void Run::train(wire::Network& network, Actor& actor, Log& log) {
  Observers observers;
  observers.push_back(std::make_unique<Watcher>(*this, log));
  TrainingState from = start(log);
  kept_.state = from;
  members.clear();
  begun = false;
  const auto cluster = Cluster::assemble(scenario_.options, net_options_, net_, cut_, observers, stop, network);
  if (cluster) {
    begun = true;
    waits = false;
    members = cluster->plan().members;
    ClusterLearner learner(*cluster, cut_, net_.training.batch, scenario_.snapshot_seconds);
    Recorder recorder(*this, *cluster, learner, actor, log);
    save(from, log);
    convoy::train(training(), recorder, std::move(from), observers,
                  [&](const TrainingState& state) { save(state, log); });
    cluster->dismiss("the run finished");
  }
  ended = true;
}

void Run::damage(int kind) {
  const fs::path last = fs::path(folder_) / "checkpoint.safetensors";
  const fs::path previous = fs::path(folder_) / "checkpoint-previous.safetensors";
  std::error_code ignored;
  if (kind == 1 && fs::exists(last)) {  // between the two renames
    fs::rename(last, previous, ignored);
  } else if (kind == 2 && fs::exists(last)) {  // in the middle of the next file
    fs::copy_file(last, fs::path(folder_) / "checkpoint-next.safetensors", fs::copy_options::overwrite_existing,
                  ignored);
    fs::resize_file(fs::path(folder_) / "checkpoint-next.safetensors", fs::file_size(last) / 2, ignored);
  } else if (kind == 3 && fs::exists(last) && fs::exists(previous)) {  // a disk that has lost the last file's end
    fs::resize_file(last, fs::file_size(last) / 2, ignored);
  } else if (kind == 4 && fs::exists(last) && fs::exists(previous)) {  // a disk on which a bit has changed
    change_bit(last);
  }
}

std::string Run::judge() const {
  const ModelState start{initial_trunk(cut_, scenario_.seed), initial_heads(cut_, scenario_.seed)};
  std::atomic<bool> never{false};
  const Training undisturbed{.net = net_,
                             .training = batches_,
                             .test = tests_,
                             .seed = scenario_.seed,
                             .checkpoint_seconds = 1e9,
                             .stop = never};
  return difference_from_replay(kept_, cut_, undisturbed, start);
}

}  // namespace convoy::simulation
