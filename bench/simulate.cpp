#include <fmt/core.h>

#include <algorithm>

#include "bench/commands.hpp"
#include "nets/net.hpp"
#include "plan/simulate.hpp"

namespace convoy {
namespace {

constexpr double kPayload = 0.944;  // of a bit on the wire, what TCP over Ethernet carries: 1 Gbit/s moves 118 MB/s

struct SimulateOptions {
  std::string net = "nets/cifar10-500-1500.yaml";
  std::vector<std::string> set;
  int batch = 256;
  std::vector<int> slaves{1, 2, 3, 4, 8};
  std::vector<double> gflops{240.0};
  double master_gflops = 240.0;
  double bandwidth = 1000.0;  // Mbit/s
  double latency = 0.2;       // ms
  std::vector<std::string> exchanges{"star", "ring"};
  std::string wire = "fp32";
  int micro_batches = 1;
  std::vector<std::string> replicated;
  std::string format = "text";
};

/// Floating-point operations of the head's matrix products for one image, forward and both gradients.
double head_flops(const Cut& parts) {
  double inputs = static_cast<double>(parts.maps.channels) * parts.maps.height * parts.maps.width;
  double flops = 0.0;
  for (const Layer& layer : parts.head) {
    const auto* dense = std::get_if<Dense>(&layer.spec);
    if (dense == nullptr) continue;
    flops += 6.0 * inputs * dense->units;
    inputs = dense->units;
  }
  return flops;
}

/// The plan for so many slaves, whose speeds are taken in turns from the list.
Plan plan_for(const SimulateOptions& options, const std::vector<Stage>& trunk, int slaves, Exchange exchange) {
  std::vector<std::string> members;
  std::vector<double> speeds;
  for (int i = 0; i < slaves; ++i) {
    members.push_back(fmt::format("slave{}", i + 1));
    speeds.push_back(options.gflops[static_cast<std::size_t>(i) % options.gflops.size()]);
  }
  Plan plan = proportional_plan(trunk, options.batch, members, speeds);
  plan.wire = number_type_from(options.wire);
  plan.micro_batches = options.micro_batches;
  set_exchange(plan, exchange);
  for (const std::string& name : options.replicated) {
    const auto stage = std::ranges::find(trunk, name, &Stage::name);
    if (stage == trunk.end()) fail("--replicate {}: the net has no such stage", name);
    if (exchange == Exchange::ring) plan.stages[static_cast<std::size_t>(stage - trunk.begin())].replicated = true;
  }
  validate(plan, trunk);
  return plan;
}

ClusterModel model_of(const SimulateOptions& options, const Plan& plan, const Cut& parts, int nodes) {
  const double bytes = options.bandwidth * 1e6 / 8.0 * kPayload;
  ClusterModel model;
  model.links.assign(static_cast<std::size_t>(nodes), {bytes, bytes});
  model.latency = options.latency * 1e-3;
  model.compute = [&options, &plan, &parts](const Task& task) {
    const auto node = static_cast<std::size_t>(task.node);
    const bool is_master = node == plan.members.size();
    const double gflops = is_master ? options.master_gflops : options.gflops[node % options.gflops.size()];
    const int micro_batch = plan.batch / plan.micro_batches;
    const auto convolution = [&](int samples) {
      return conv_flops(parts.trunk[static_cast<std::size_t>(task.stage)], samples, task.filters.count) / gflops / 1e9;
    };
    switch (task.kind) {
      case TaskKind::forward: return convolution(micro_batch);
      case TaskKind::backward_input: return task.stage == 0 ? 0.0 : convolution(micro_batch);
      case TaskKind::backward_filters: return convolution(plan.batch);
      case TaskKind::head: return head_flops(parts) * plan.batch / gflops / 1e9;
      case TaskKind::sum:
      case TaskKind::layers:
      case TaskKind::layers_backward: return memory_seconds(task, plan, parts.trunk);
      default: return 0.0;
    }
  };
  return model;
}

/// Seconds of a step on one machine of that speed, without any transfer.
double ideal_seconds(const SimulateOptions& options, const Cut& parts, double gflops) {
  double flops = head_flops(parts) * options.batch;
  for (std::size_t s = 0; s < parts.trunk.size(); ++s) {
    flops += (s > 0 ? 3.0 : 2.0) * conv_flops(parts.trunk[s], options.batch, parts.trunk[s].conv.filters);
  }
  return flops / gflops / 1e9;
}

void run_simulate(const SimulateOptions& options) {
  const Cut parts = cut(read_net(options.net, options.set));
  if (parts.trunk.empty()) fail("{}: the net has no convolutional layer, so there is nothing to share", options.net);
  const double alone = ideal_seconds(options, parts, std::ranges::max(options.gflops));
  const bool csv = options.format == "csv";
  fmt::print("{}", csv ? "slaves,exchange,seconds,speedup,ideal,master_out_mb,master_in_mb,busiest_slave_mb\n"
                       : fmt::format("one machine of {:g} GFLOP/s: {:.3f} s a step\n{:>6} {:<9}{:>9}{:>9}{:>8}{:>14}"
                                     "{:>13}{:>17}\n",
                                     std::ranges::max(options.gflops), alone, "slaves", "exchange", "seconds",
                                     "speedup", "ideal", "master out/MB", "master in/MB", "busiest slave/MB"));
  for (const std::string& name : options.exchanges) {
    for (const int slaves : options.slaves) {
      const Plan plan = plan_for(options, parts.trunk, slaves, exchange_from(name));
      const TaskGraph graph = make_task_graph(plan, parts.trunk);
      const Simulated step = simulate(graph, plan, parts.trunk, model_of(options, plan, parts, graph.nodes));
      double speeds = 0.0;
      double busiest = 0.0;
      for (int i = 0; i < slaves; ++i) {
        speeds += options.gflops[static_cast<std::size_t>(i) % options.gflops.size()];
        const NodeUse& use = step.nodes[static_cast<std::size_t>(i)];
        busiest = std::max({busiest, use.bytes_in, use.bytes_out});
      }
      const NodeUse& master = step.nodes[static_cast<std::size_t>(graph.master)];
      fmt::print(fmt::runtime(csv ? "{},{},{:.6f},{:.4f},{:.4f},{:.3f},{:.3f},{:.3f}\n"
                                  : "{:>6} {:<9}{:>9.3f}{:>9.2f}{:>8.2f}{:>14.1f}{:>13.1f}{:>17.1f}\n"),
                 slaves, name, step.seconds, alone / step.seconds, speeds / std::ranges::max(options.gflops),
                 master.bytes_out / 1e6, master.bytes_in / 1e6, busiest / 1e6);
    }
  }
}

}  // namespace

void add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App& command = *app.add_subcommand(
      "simulate",
      "time of a training step on machines that are described, by a discrete-event model of the same task graph that a "
      "plan stands for, with contention on the links; speedup over the fastest of them alone");
  command.add_option("--net", options->net, "net file")->capture_default_str();
  command.add_option("--set", options->set, "override of the net file");
  command.add_option("--batch", options->batch, "images")->check(CLI::Range(1, 65536))->capture_default_str();
  command.add_option("--slaves", options->slaves, "numbers of slaves, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--gflops", options->gflops, "speeds of the slaves, taken in turns")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--master-gflops", options->master_gflops, "speed of the master")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--bandwidth", options->bandwidth, "of each machine's link, each way, in Mbit/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--latency", options->latency, "of a message, in ms")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--exchange", options->exchanges, "star, ring, thesis, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"star", "ring", "thesis"}))
      ->capture_default_str();
  command.add_option("--wire", options->wire, "number type of maps and gradients on the wire")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  command.add_option("--micro-batches", options->micro_batches, "equal parts of the batch, pipelined")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      .add_option("--replicate", options->replicated,
                  "stages that every slave computes whole going forward (with ring), separated by commas")
      ->delimiter(',');
  command.add_option("--format", options->format, "text or csv")
      ->check(CLI::IsMember({"text", "csv"}))
      ->capture_default_str();
  command.callback([options] { run_simulate(*options); });
}

}  // namespace convoy
