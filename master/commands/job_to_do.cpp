#include "master/commands/job_to_do.hpp"

#include <algorithm>

#include "core/thread_team.hpp"
#include "devices/registry.hpp"
#include "master/commands/load_net.hpp"
#include "master/jobs/machine_times.hpp"

namespace convoy {
namespace {

/// The threads of each of the jobs that this machine trains at the same time; 0 for all.
int threads_of_a_job(int given, int master_jobs) {
  if (master_jobs <= 1) return given;
  const int all = given > 0 ? given : hardware_threads();
  return std::max(1, all / master_jobs);
}

}  // namespace

void JobToDo::measure_net() {
  const Cut parts = cut(net);
  has_trunk = !parts.trunk.empty();
  operations = step_operations(parts, net.training.batch);
}

TrainOptions for_one_job(TrainOptions train, int master_jobs) {
  train.net.device_options.threads = threads_of_a_job(train.net.device_options.threads, master_jobs);
  train.meter = "none";
  for (const char* name : {"slaves", "listen", "insecure", "keys", "master-jobs", "at-once", "threads"}) {
    train.given.erase(name);
  }
  train.given["meter"] = train.meter;
  if (const int threads = train.net.device_options.threads; threads > 0) {
    train.given["threads"] = std::to_string(threads);
  }
  return train;
}

std::string device_of_jobs(const NetOptions& options) {
  return make_device(options.device, options.device_options)->info().name;
}

OpenedData::Key OpenedData::key_of(const NetOptions& options, const Net& net) {
  const std::uint64_t seed = options.data == "glyphs" || options.val_split > 0.0 ? options.seed : 0;
  return {options.data, seed, net.input.channels, net.input.height, net.input.width, net.resize};
}

std::shared_ptr<const DataSet> OpenedData::open(const NetOptions& options, const Net& net) {
  std::shared_ptr<const DataSet> data = opened_[key_of(options, net)].lock();
  if (!data) {
    data = std::make_shared<const DataSet>(load_data(options, options.seed, net));
    put(options, net, data);
  }
  return data;
}

void OpenedData::put(const NetOptions& options, const Net& net, const std::shared_ptr<const DataSet>& data) {
  opened_[key_of(options, net)] = data;
}

}  // namespace convoy
