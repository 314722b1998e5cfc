#include <nlohmann/json.hpp>

#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "core/stopwatch.hpp"
#include "data/dataset.hpp"
#include "devices/paced_device.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/pass_energy.hpp"
#include "master/report/energy_json.hpp"
#include "master/report/test_report.hpp"
#include "master/report/text_observer.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

/// The results of a test. If it was interrupted, they cover only the images before that.
struct Found {
  Evaluation result;
  Confusion confusion;
  EnergyReport energy = {};
  EnergyUse use = {};
};

void announce(const TestOptions& options, const DataSet& data, const Observers& observers) {
  const std::string drawn =
      options.net.data == "glyphs" ? ", which Convoy draws itself; --data FOLDER tests on others" : "";
  for (const auto& observer : observers) {
    observer->on_notice(fmt::format("testing {} on the {} test images of {}{}", options.weights, data.test.count(),
                                    options.net.data, drawn));
    for (const std::string& notice : data.notices) observer->on_notice(notice);
  }
}

/// A net with its weights, on whatever machines.
struct Tested {
  Cluster& cluster;
  Learner& learner;
  const Cut& cut;
  int classes = 0;
};

/// Runs the test until its end or until `stop` is set, counts the answers, measures the energy, and reports the
/// progress.
Found test(const Tested& net, const Batches& batches, int images, PassEnergy& energy, const Observers& observers,
           const std::atomic<bool>& stop) {
  Found found{.result = {}, .confusion = Confusion(net.classes)};
  energy.begin(net.cluster);
  const Stopwatch watch;
  const auto count = [&](const Evaluation& so_far, const TestedBatch& batch) {
    found.confusion.add(batch.outputs, batch.labels, batch.count);
    energy.count(net.cluster, net.learner);
    const double left = watch.seconds() * (images - so_far.images) / so_far.images;
    for (const auto& observer : observers) {
      observer->on_test({.tested = so_far.images, .images = images, .accuracy = so_far.accuracy, .seconds_left = left});
    }
    return !stop;
  };
  try {
    found.result = evaluate(net.learner, batches, count);
  } catch (const Diverged& diverged) {
    fail("{}; check that the weights belong to this net, or take weights of an earlier epoch", diverged.what());
  }
  found.energy = energy.end(net.cluster);
  found.use = energy.use(net.cut, found.result.images);
  return found;
}

void print(const Found& found, const TestOptions& options, const Net& net, int images, const Observers& observers) {
  const Evaluation& result = found.result;
  if (options.net.format == "json") {
    nlohmann::ordered_json json{{"event", "test"},
                                {"data", options.net.data},
                                {"images", result.images},
                                {"loss", result.loss},
                                {"accuracy", result.accuracy}};
    if (result.images < images) json["interrupted"] = true;
    json.update(to_json(found.confusion, net.class_names));
    json["energy"] = energy_json(found.energy, found.use);
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  std::vector<std::string> lines;
  if (result.images < images)
    lines.push_back(fmt::format("interrupted; {} of {} images were tested", result.images, images));
  lines.push_back(fmt::format("{} test images: loss {:.4f}, accuracy {:.2f} %", result.images, result.loss,
                              100.0 * result.accuracy));
  for (const std::string& line : lines_of(found.confusion, net.class_names)) lines.push_back(line);
  for (const std::string& line : energy_lines(found.energy, found.use)) lines.push_back(line);
  for (const auto& observer : observers) {
    for (const std::string& line : lines) observer->on_notice(line);
  }
}

}  // namespace

int test_command(const TestOptions& options) {
  expect_computing(options.net.device, "test");
  Net net = load_net(options.net);
  const Cut cut = convoy::cut(net);
  const DataSet data = load_data(options.net, options.net.seed, net);
  require_fits(data, net);
  if (net.class_names.empty()) net.class_names = data.class_names;
  const auto weights = std::make_shared<const ModelState>(read_weights(options.weights, cut));
  const Batches batches(data, Part::test, net.training.batch, options.net.seed, Augmentation{}, net.scales);

  PassEnergy energy(options.energy);
  Observers observers;
  if (options.net.format == "text") observers.push_back(make_text_observer());
  const std::atomic<bool>& stop = catch_stop_signals();
  announce(options, data, observers);
  const auto cluster = Cluster::assemble(options.cluster, options.net, net, cut, observers, stop);
  if (!cluster) return kInterrupted;
  ClusterLearner learner(*cluster, cut, net.training.batch);
  learner.load({weights});
  const Found found = test({.cluster = *cluster, .learner = learner, .cut = cut, .classes = net.classes}, batches,
                           data.test.count(), energy, observers, stop);
  const bool whole = found.result.images == data.test.count();
  cluster->dismiss(whole ? "the test finished" : "the master was interrupted");
  print(found, options, net, data.test.count(), observers);
  return whole ? kSuccess : kInterrupted;
}

}  // namespace convoy
