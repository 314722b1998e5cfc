#include "master/commands/load_net.hpp"

namespace convoy {

Net load_net(const NetOptions& options) {
  Overrides overrides = options.set;
  if (options.batch > 0) overrides.push_back(fmt::format("training.batch={}", options.batch));
  return read_net(options.net, overrides);
}

Net load_net(const TrainOptions& options) {
  NetOptions net = options.net;
  if (options.epochs > 0) net.set.push_back(fmt::format("training.epochs={}", options.epochs));
  return load_net(net);
}

}  // namespace convoy
