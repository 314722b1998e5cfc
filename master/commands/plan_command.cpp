#include <nlohmann/json.hpp>
#include <set>

#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/stop_signal.hpp"
#include "devices/registry.hpp"
#include "master/cluster/described_machines.hpp"
#include "master/cluster/gather.hpp"
#include "master/cluster/learned_power.hpp"
#include "master/cluster/planning.hpp"
#include "master/commands/load_net.hpp"
#include "master/report/text_observer.hpp"

namespace convoy {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr std::size_t kShownAlternatives = 8;

void print_stage(const Planned& planned, const Stage& stage, std::size_t s) {
  const Plan& plan = planned.plan;
  const Shape out = output_shape(stage, plan.batch, stage.conv.filters);
  fmt::print("stage {}: {} filters, {}x{}x{} to {}x{}x{}, {:.2f} GFLOP a pass{}\n", stage.name, stage.conv.filters,
             stage.channels, stage.height, stage.width, out.c, out.h, out.w,
             conv_flops(stage, plan.batch, stage.conv.filters) / 1e9,
             plan.stages[s].replicated ? "; every member computes all of its maps" : "");
  for (const Tile& tile : tiles_of(plan.stages[s])) {
    const auto member = static_cast<std::size_t>(tile.member);
    const int samples = tile.samples.count * plan.micro_batches;
    const double memory = static_cast<double>(shard_bytes(stage, tile.filters.count, samples, s > 0)) / kMiB;
    std::string time = "not timed";
    if (member < planned.calibration.members.size()) {
      const Timing passes = predict_passes(planned.calibration.members[member], s, tile.filters.count)
                                .for_samples(static_cast<double>(samples) / plan.batch)
                                .in_parts(plan.micro_batches);
      time = fmt::format("forward {:.2f} ms, backward {:.2f} ms", 1e3 * passes.forward,
                         1e3 * (passes.backward_input + passes.backward_filters));
    }
    const std::string of_batch =
        has_several_rows(plan.stages[s]) ? fmt::format("  {} of {} samples", samples, plan.batch) : "";
    fmt::print("  {:<16} filters {:>5} to {:>5} ({:>5}){}  {:>8.1f} MiB  {}\n", plan.members[member],
               tile.filters.first, tile.filters.first + tile.filters.count - 1, tile.filters.count, of_batch, memory,
               time);
  }
}

/// What is known of a member's link. The master's machine alone has none.
std::string link_text(const NodeLink& link) {
  if (link.out <= 0.0 || link.in <= 0.0) return "";
  return fmt::format("; its link {:.0f} Mbit/s out, {:.0f} Mbit/s in", 8e-6 * link.out, 8e-6 * link.in);
}

/// The joules of a step beside its time; an empty text where they are not known.
std::string joules_text(const std::optional<double>& joules) {
  return joules ? fmt::format(", {:.4g} J", *joules) : "";
}

/// The energy of a node in a step; an empty text where no node's power is known.
std::string energy_text(const StepEnergy& energy, std::size_t node) {
  if (!energy.tells()) return "";
  const std::optional<double>& joules = energy.nodes[node];
  return joules ? fmt::format("; takes {:.4g} J", *joules) : "; its watts are not known";
}

/// Prints how much of what the nodes send is images.
void print_images(const Plan& plan, const std::vector<Stage>& trunk) {
  double bytes = 0.0;
  for (const Task& task : make_task_graph(plan, trunk).tasks) {
    if (carries_images(task)) bytes += bytes_of(task, plan, trunk);
  }
  if (bytes > 0.0) fmt::print("  images take {:.2f} MB of these, a byte for each value\n", bytes / 1e6);
}

/// Returns the seconds of a step in which a node does not compute, without what is left of rounding.
double idle_seconds(double step, const NodeUse& use) {
  const double idle = step - use.compute;
  return idle > 1e-9 * step ? idle : 0.0;
}

/// Prints the predicted step, the load of each node, and the alternatives.
void print_choice(const Planned& planned, const std::vector<Stage>& trunk) {
  const Plan& plan = planned.plan;
  const Choice& choice = *planned.choice;
  fmt::print("{}: a step takes about {:.4g} s\n", describe(plan), choice.predicted.seconds);
  const std::string energy = describe(choice.energy, choice.predicted.seconds, plan.batch);
  if (!energy.empty()) fmt::print("energy: {}\n", energy);
  for (std::size_t node = 0; node < choice.predicted.nodes.size(); ++node) {
    const NodeUse& use = choice.predicted.nodes[node];
    const bool timed = node < planned.calibration.members.size();
    fmt::print("  {:<16} computes {:.4g} s, idle {:.4g} s; sends {:.2f} MB, receives {:.2f} MB{}{}\n",
               node < plan.members.size() ? plan.members[node] : kMasterName, use.compute,
               idle_seconds(choice.predicted.seconds, use), use.bytes_out / 1e6, use.bytes_in / 1e6,
               timed ? link_text(planned.calibration.members[node].link) : "", energy_text(choice.energy, node));
  }
  print_images(plan, trunk);
  for (const std::string& idle : idle_members(planned)) fmt::print("  {}\n", idle);
  if (planned.calibration.seconds_alone > 0.0) {
    fmt::print("the master's machine alone: {:.4g} s{}{}\n", planned.calibration.seconds_alone,
               joules_text(planned.energy_alone().joules()),
               planned.better_alone() ? "; train would leave out the slaves" : "");
  }
  fmt::print(
      "other plans (one with fewer members is chosen if it is {:.0f} % better, a less simple one if it is {:.0f} %):\n",
      100.0 * (1.0 - kWorthLeavingOut), 100.0 * (1.0 - kWorthwhile));
  // The best plan of each layout is shown in any case.
  std::set<Layout> layouts;
  std::size_t shown = 0;
  for (const Alternative& other : choice.alternatives) {
    const bool first = layouts.insert(other.layout).second;
    if (other.seconds == choice.predicted.seconds || (shown >= kShownAlternatives && !first)) continue;
    ++shown;
    fmt::print("  {}{:.4g} s ({:+.1f} %){}  {}\n", other.at_least ? "at least " : "", other.seconds,
               100.0 * (other.seconds / choice.predicted.seconds - 1.0), joules_text(other.joules), other.text);
  }
}

/// Prints the plan in the form of a plan.json, and beside it what it is predicted to take.
void print_json(const Planned& planned) {
  nlohmann::json json = nlohmann::json::parse(to_json(planned.plan));
  if (planned.choice) {
    const Choice& choice = *planned.choice;
    const double seconds = choice.predicted.seconds;
    nlohmann::json& predicted = json["predicted"];
    predicted["seconds"] = seconds;
    if (const auto joules = choice.energy.joules(); joules && choice.energy.tells()) {
      predicted["joules"] = *joules;
      predicted["joules_per_image"] = *joules / planned.plan.batch;
      predicted["energy_delay_product"] = *joules * seconds;
      predicted["declared_joules"] = choice.energy.declared;
      predicted["assumed_joules"] = choice.energy.assumed;
    }
    predicted["watts_not_known"] = choice.energy.unknown;
  }
  fmt::print("{}\n", json.dump());
}

/// Waits for slaves, plans for them, and sends them away. Returns nothing if interrupted.
std::optional<Planned> plan_with_slaves(const PlanOptions& options, const Net& net, const Cut& cut) {
  const int batch = net.training.batch;
  const auto device = make_device(options.net.device, options.net.device_options);
  ClusterOptions cluster = options.cluster;
  if (cluster.slaves == 0) {
    cluster.share = true;
    cluster.listen = "tcp://127.0.0.1:*";
    cluster.insecure = true;    // no slave joins
    cluster.exchange = "star";  // nothing travels, so the exchanges do not differ
  }
  Observers observers;
  if (options.net.format == "text") {
    observers.push_back(make_text_observer());
    if (device->info().paced) notice(observers, fmt::format("this machine is {}", device->info().description));
    if (cluster.slaves > 0) {
      fmt::print("to plan without slaves, give --calibration RUN/calibration.json or --machines {}x240@1000\n",
                 cluster.slaves);
    }
  }
  expect_possible(cluster, cut, batch);
  const auto lobby = open_lobby(cluster, net.name, device->info().paced, observers);
  Crew crew(*lobby);
  if (!gather_slaves(cluster, crew, cluster.slaves, observers, catch_stop_signals())) return std::nullopt;
  const HeadPlace heads = place_of_heads(options.net, cut, batch, *device);
  Planned planned = plan_members({cluster, cut, batch, *device, heads}, crew, observers);
  crew.dismiss("the master made a plan only");
  return planned;
}

/// Plans for the machines that a run has timed, or that are described.
std::optional<Planned> plan_without_slaves(const PlanOptions& options, const Net& net, const Cut& cut) {
  const int batch = net.training.batch;
  const Wishes wishes = wishes_of(options.cluster, batch);
  if (!options.cluster.plan.empty() && wishes.exchange != Exchange::thesis) {
    fail("{} makes a plan; leave out --plan {}", options.machines.empty() ? "--calibration" : "--machines",
         options.cluster.plan);
  }
  Planned planned{.plan = {}, .calibration = {}, .choice = {}, .fixed = {}, .wishes = wishes};
  if (options.machines.empty()) {
    planned.calibration = calibration_from_json(read_text(options.calibration), options.calibration, cut.trunk, batch);
  } else {
    const std::vector<DescribedMachine> machines = machines_from(options.machines);
    const DescribedMachine& first = machines.front();
    planned.calibration = calibration_of(machines, {.gflops = first.gflops, .power = first.power}, cut, batch);
  }
  if (!options.cluster.power_from.empty()) take_power(planned.calibration, options.cluster.power_from);
  planned.choice = choose_plan(cut.trunk, batch, planned.calibration.members, wishes, planned.calibration.master);
  planned.plan = planned.choice->plan;
  return planned;
}

}  // namespace

int plan_command(const PlanOptions& options) {
  const Net net = load_net(options.net);
  const Cut cut = convoy::cut(net);
  if (cut.trunk.empty()) fail("{}: net {} has no convolutional layer, so there is nothing to plan", net.file, net.name);
  const bool described = !options.calibration.empty() || !options.machines.empty();
  const auto planned = described ? plan_without_slaves(options, net, cut) : plan_with_slaves(options, net, cut);
  if (!planned) return kInterrupted;
  if (options.net.format == "json") {
    print_json(*planned);
  } else {
    for (std::size_t s = 0; s < cut.trunk.size(); ++s) print_stage(*planned, cut.trunk[s], s);
    if (planned->choice) print_choice(*planned, cut.trunk);
  }
  return kSuccess;
}

}  // namespace convoy
