#include <cmath>
#include <nlohmann/json.hpp>

#include "core/exit_code.hpp"
#include "core/output.hpp"
#include "core/stop_signal.hpp"
#include "core/text.hpp"
#include "data/batches.hpp"
#include "devices/paced_device.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "master/commands/pass_energy.hpp"
#include "master/report/energy_json.hpp"
#include "master/report/predictions.hpp"
#include "master/report/text_observer.hpp"
#include "model/ensemble_scores.hpp"
#include "train/train.hpp"

namespace convoy {
namespace {

/// The scores of an image: probabilities if the net ends with softmax, otherwise its outputs unchanged.
std::vector<float> scores_of(const std::string& file, std::span<const float> outputs, bool softmax) {
  expect_finite_outputs(file, outputs, "the net's");
  return softmax ? softmax_of(outputs) : std::vector<float>(outputs.begin(), outputs.end());
}

/// Prints what the answers took. In text it is no answer, so that it goes where the skipped files are told.
void print_energy(const EnergyReport& energy, const EnergyUse& use, const std::string& format) {
  if (format == "json") {
    nlohmann::ordered_json line{{"event", "energy"}, {"images", std::lround(use.images)}, {"seconds", use.seconds}};
    line.update(energy_json(energy, use));
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  for (const std::string& line : energy_lines(energy, use)) put(stderr, printable(line) + "\n");
}

}  // namespace

int predict_command(const PredictOptions& options) {
  expect_computing(options.net.device, "predict");
  const Net net = load_net(options.net);
  expect_scales(net);
  const Cut cut = convoy::cut(net);
  const auto weights = std::make_shared<const ModelState>(read_weights(options.weights, cut));
  const std::vector<std::string> files = image_files(options.images);
  PassEnergy energy(options.energy);
  Observers observers;
  if (options.net.format == "text" && options.cluster.slaves > 0) observers.push_back(make_text_observer());
  const std::atomic<bool>& stop = catch_stop_signals();
  const auto cluster = Cluster::assemble(options.cluster, options.net, net, cut, observers, stop);
  if (!cluster) return kInterrupted;
  const int batch = net.training.batch;
  const bool softmax = std::holds_alternative<SoftmaxCrossEntropy>(net.layers.back().spec);
  ClusterLearner learner(*cluster, cut, batch);
  learner.load({weights});
  Images images{Pixels({batch, net.input.channels, net.input.height, net.input.width}), net.scales};
  const PredictionStyle style{.class_names = net.class_names,
                              .top = options.top,
                              .format = options.net.format,
                              .shares = softmax,
                              .score = softmax ? "probability" : "score"};
  std::size_t skipped = 0;
  std::size_t first = 0;
  energy.begin(*cluster);
  while (first < files.size() && !stop) {
    const std::vector<std::string> wrong = read_images(files, first, net, options.net.corrupt, images.pixels);
    const Tensor& outputs = learner.outputs(images);
    for (int n = 0; n < batch && first < files.size(); ++n, ++first) {
      if (const std::string& what = wrong[n]; !what.empty()) {
        print_skipped(files[first], what, options.net.format);
        ++skipped;
        continue;
      }
      print_prediction(files[first], scores_of(files[first], outputs.sample(n), softmax), style);
    }
    energy.count(*cluster, learner);
  }
  const EnergyReport spent = energy.end(*cluster);
  cluster->dismiss("all images are classified");
  print_energy(spent, energy.use(cut, static_cast<long>(first - skipped)), options.net.format);
  if (!stop) print_skipped_total(skipped, files.size(), options.net.format);
  return stop ? kInterrupted : kSuccess;
}

}  // namespace convoy
