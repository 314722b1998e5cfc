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

DataSet load_data(const NetOptions& options, std::uint64_t seed, const Net& net) {
  DataSet data = open_data(options.data, seed, net.input, options.corrupt);
  data.set_resize(net.resize);
  if (options.val_split > 0.0) split_validation(data, options.val_split, seed);
  return data;
}

}  // namespace convoy
