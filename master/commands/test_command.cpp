#include <nlohmann/json.hpp>

#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "data/dataset.hpp"
#include "master/cluster/cluster_learner.hpp"
#include "master/commands/load_net.hpp"
#include "train/train.hpp"

namespace convoy {

int test_command(const TestOptions& options) {
  const Net net = load_net(options.net);
  const Cut cut = convoy::cut(net);
  const DataSet data = open_data(options.net.data, options.net.seed, net.input, options.net.corrupt);
  require_fits(data, net);
  const auto weights = std::make_shared<const ModelState>(read_weights(options.weights, cut));
  const Batches test(data, Part::test, net.training.batch, options.net.seed, Augmentation{}, net.scales);

  Observers observers;
  if (options.net.format == "text") observers.push_back(make_text_observer());
  const auto cluster = Cluster::assemble(options.cluster, options.net, net, cut, observers, catch_stop_signals());
  if (!cluster) return kInterrupted;
  ClusterLearner learner(*cluster, cut, net.training.batch, options.net.device_options.threads);
  learner.load(weights);
  const Evaluation result = evaluate(learner, test);
  cluster->dismiss("the test finished");
  if (options.net.format == "json") {
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{
            {"event", "test"}, {"images", data.test.count()}, {"loss", result.loss}, {"accuracy", result.accuracy}}
            .dump());
  } else {
    fmt::print("{} test images: loss {:.4f}, accuracy {:.2f} %\n", data.test.count(), result.loss,
               100.0 * result.accuracy);
  }
  return kSuccess;
}

}  // namespace convoy
