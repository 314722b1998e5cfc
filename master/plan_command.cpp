#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "devices/registry.hpp"
#include "master/cluster.hpp"
#include "master/load_net.hpp"

namespace convoy {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

void print_stage(const Planned& planned, const Stage& stage, std::size_t s) {
  const Shape out = output_shape(stage, planned.plan.batch, stage.conv.filters);
  fmt::print("stage {}: {} filters, {}x{}x{} to {}x{}x{}, {:.2f} GFLOP a pass\n", stage.name, stage.conv.filters,
             stage.channels, stage.height, stage.width, out.c, out.h, out.w,
             conv_flops(stage, planned.plan.batch, stage.conv.filters) / 1e9);
  for (const Assignment& shard : planned.plan.stages[s].shards) {
    const auto member = static_cast<std::size_t>(shard.member);
    const double memory =
        static_cast<double>(shard_bytes(stage, shard.filters.count, planned.plan.batch, s > 0)) / kMiB;
    const std::string time =
        member < planned.profiles.size()
            ? fmt::format("{:9.2f} ms", 1e3 * predict_seconds(planned.profiles[member], s, shard.filters.count))
            : std::string("not timed");
    fmt::print("  {:<16} filters {:>5} to {:>5} ({:>5})  {:>8.1f} MiB  forward and backward {}\n",
               planned.plan.members[member], shard.filters.first, shard.filters.first + shard.filters.count - 1,
               shard.filters.count, memory, time);
  }
}

}  // namespace

int plan_command(const PlanOptions& options) {
  const Net net = load_net(options.net);
  const Cut cut = convoy::cut(net);
  if (cut.trunk.empty()) fail("{}: net {} has no convolutional layer, so there is nothing to plan", net.file, net.name);
  const auto device = make_device(options.net.device, options.net.device_options);
  const bool alone = options.cluster.slaves == 0;
  const bool own = options.cluster.share || alone;
  ClusterOptions cluster = options.cluster;
  if (alone) cluster.listen = "tcp://127.0.0.1:*";
  Observers observers;
  if (options.net.format == "text") observers.push_back(make_text_observer());
  const auto planned = make_plan_with_slaves(cluster, net.name, cut.trunk, net.training.batch,
                                             own ? device.get() : nullptr, observers, catch_stop_signals());
  if (!planned) return kInterrupted;
  if (options.net.format == "json") {
    fmt::print("{}", to_json(planned->plan));
  } else {
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) print_stage(*planned, cut.trunk[s], s);
  }
  planned->roster->dismiss("only a plan was asked for");
  return kSuccess;
}

}  // namespace convoy
