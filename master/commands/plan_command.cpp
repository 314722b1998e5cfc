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
#include "plan/node_memory.hpp"

namespace convoy {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr std::size_t kShownAlternatives = 8;

/// The bytes of a member's tile, and the times of its passes in a step.
struct TileCost {
  double mebibytes = 0.0;
  Timing passes = {};
};

/// The block in which a member's device keeps filters; 1 where it is not known.
int filter_block_of(const Planned& planned, std::size_t member) {
  const std::vector<MemberProfile>& members = planned.calibration.members;
  return member < members.size() ? members[member].filter_block : 1;
}

TileCost cost_of(const Planned& planned, const Stage& stage, std::size_t s, const Tile& tile) {
  const Plan& plan = planned.plan;
  const auto member = static_cast<std::size_t>(tile.member);
  const int samples = tile.samples.count * plan.micro_batches;
  const std::size_t bytes = shard_bytes(stage, tile.filters.count, samples, s > 0, filter_block_of(planned, member));
  TileCost cost{static_cast<double>(bytes) / kMiB};
  if (member < planned.calibration.members.size()) {
    cost.passes = predict_passes(planned.calibration.members[member], s, tile.filters.count)
                      .for_samples(static_cast<double>(samples) / plan.batch)
                      .in_parts(plan.micro_batches);
  }
  return cost;
}

std::string text_of(const Planned& planned, const Tile& tile, const Timing& passes) {
  if (static_cast<std::size_t>(tile.member) >= planned.calibration.members.size()) return "not timed";
  return fmt::format("forward {:.2f} ms, backward {:.2f} ms", 1e3 * passes.forward,
                     1e3 * (passes.backward_input + passes.backward_filters));
}

/// The samples of a tile, where members share them.
std::string samples_text(const Plan& plan, std::size_t s, const Tile& tile) {
  if (!has_several_rows(plan.stages[s])) return "";
  return fmt::format("  {} of {} samples", tile.samples.count * plan.micro_batches, plan.batch);
}

/// Prints which channels of the last maps each member multiplies for the first dense layer.
void print_slices(const Planned& planned, const DenseSlices& slices) {
  const Plan& plan = planned.plan;
  const std::vector<Stage>& trunk = slices.cut.trunk;
  const Stage& first = trunk[slices.first];
  fmt::print("dense layer {}: {} units, {}x{}x{} inputs in {} slices\n", trunk.back().name, first.conv.filters,
             slices.channels.back().first + slices.channels.back().count, first.height, first.width,
             slices.channels.size());
  for (int member = 0; member < static_cast<int>(plan.members.size()); ++member) {
    TileCost sum;
    FilterRange channels;
    Tile last;
    for (std::size_t slice = 0; slice < slices.channels.size(); ++slice) {
      const std::size_t s = slices.first + slice;
      const Tile tile = tile_of(plan.stages[s], member);
      if (tile.box().empty()) continue;
      last = tile;
      channels = hull(channels, slices.channels[slice]);
      const TileCost cost = cost_of(planned, trunk[s], s, tile);
      sum.mebibytes += cost.mebibytes;
      sum.passes.forward += cost.passes.forward;
      sum.passes.backward_input += cost.passes.backward_input;
      sum.passes.backward_filters += cost.passes.backward_filters;
    }
    if (channels.count == 0) continue;
    fmt::print("  {:<16} channels{:>5} to {:>5} ({:>5}){}  {:>8.1f} MiB  {}\n", plan.members[member], channels.first,
               channels.first + channels.count - 1, channels.count, samples_text(plan, slices.first, last),
               sum.mebibytes, text_of(planned, last, sum.passes));
  }
}

void print_stage(const Planned& planned, const Stage& stage, std::size_t s) {
  const Plan& plan = planned.plan;
  const Shape out = output_shape(stage, plan.batch, stage.conv.filters);
  fmt::print("stage {}: {} filters, {}x{}x{} to {}x{}x{}, {:.2f} GFLOP a pass{}\n", stage.name, stage.conv.filters,
             stage.channels, stage.height, stage.width, out.c, out.h, out.w,
             conv_flops(stage, plan.batch, stage.conv.filters) / 1e9,
             plan.stages[s].replicated ? "; every member computes all of its maps" : "");
  for (const Tile& tile : tiles_of(plan.stages[s])) {
    const TileCost cost = cost_of(planned, stage, s, tile);
    fmt::print("  {:<16} filters {:>5} to {:>5} ({:>5}){}  {:>8.1f} MiB  {}\n", plan.members[tile.member],
               tile.filters.first, tile.filters.first + tile.filters.count - 1, tile.filters.count,
               samples_text(plan, s, tile), cost.mebibytes, text_of(planned, tile, cost.passes));
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

/// Prints the memory that each member takes.
void print_memory(const Planned& planned, const std::vector<Stage>& trunk) {
  const Plan& plan = planned.plan;
  const TaskGraph graph = make_task_graph(plan, trunk);
  for (int member = 0; member < static_cast<int>(plan.members.size()); ++member) {
    if (!has_tiles(plan, member)) continue;
    const int block = filter_block_of(planned, static_cast<std::size_t>(member));
    fmt::print("  {:<16} takes {:.1f} MiB for its filters and maps, {:.1f} MiB for values on their way\n",
               plan.members[member], static_cast<double>(shards_bytes(plan, trunk, graph, member, block)) / kMiB,
               static_cast<double>(host_bytes(plan, trunk, graph, member)) / kMiB);
  }
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
  fmt::print("{}{}: a step takes about {:.4g} s\n", describe(plan), planned.sliced ? kSharedDense : "",
             choice.predicted.seconds);
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
  // The best plan of each layout, and of each form of the net, is shown in any case.
  std::set<std::pair<Layout, bool>> kinds;
  std::size_t shown = 0;
  for (const Alternative& other : choice.alternatives) {
    const bool first = kinds.emplace(other.layout, other.shares_dense).second;
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

/// The forms of a net.
struct Forms {
  Cut whole;
  std::optional<DenseSlices> slices = {};
  const Cut& of(const Planned& planned) const { return planned.sliced ? slices->cut : whole; }
};

/// Waits for slaves, plans for them, and sends them away. Returns nothing if interrupted.
std::optional<Planned> plan_with_slaves(const PlanOptions& options, const Net& net, Forms& forms) {
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
  forms.slices = slices_of(cluster, forms.whole);
  const bool asked = forms.slices && asks_for_slices(cluster);
  expect_possible(cluster, asked ? forms.slices->cut : forms.whole, batch);
  const auto lobby = open_lobby(cluster, net.name, device->info().paced, observers);
  Crew crew(*lobby);
  if (!gather_slaves(cluster, crew, cluster.slaves, observers, catch_stop_signals())) return std::nullopt;
  Work work{cluster, forms.whole, batch, *device, place_of_heads(options.net, forms.whole, batch, *device)};
  if (forms.slices) {
    work.sliced.emplace(SlicedNet{*forms.slices, place_of_heads(options.net, forms.slices->cut, batch, *device)});
    if (asked) work.dense = DenseBy::members;
  }
  Planned planned = plan_members(work, crew, observers);
  crew.dismiss("the master made a plan only");
  return planned;
}

/// Plans for the machines that a run has timed, or that are described.
std::optional<Planned> plan_without_slaves(const PlanOptions& options, const Net& net, Forms& forms) {
  const int batch = net.training.batch;
  const Wishes wishes = wishes_of(options.cluster, batch);
  if (!options.cluster.plan.empty() && wishes.exchange != Exchange::thesis) {
    fail("{} makes a plan; leave out --plan {}", options.machines.empty() ? "--calibration" : "--machines",
         options.cluster.plan);
  }
  Planned planned{.plan = {}, .calibration = {}, .choice = {}, .fixed = {}, .wishes = wishes};
  if (options.machines.empty()) {
    const std::string& file = options.calibration;
    const std::string text = read_text(file);
    if (options.cluster.dense != DenseBy::master) {
      forms.slices = slices_of(calibration_from_json(text, file), forms.whole);
    }
    if (options.cluster.dense == DenseBy::members && !forms.slices) {
      fail("{}: the run timed no slices of the net's first dense layer; leave out --dense members", file);
    }
    planned.calibration = forms.slices ? calibration_from_json(text, file, forms.slices->cut.trunk, batch, true)
                                       : calibration_from_json(text, file, forms.whole.trunk, batch);
  } else {
    const std::vector<DescribedMachine> machines = machines_from(options.machines);
    const DescribedMachine& first = machines.front();
    ClusterOptions cluster = options.cluster;
    cluster.slaves = static_cast<int>(machines.size());
    forms.slices = slices_of(cluster, forms.whole);
    planned.calibration = calibration_of(machines, {.gflops = first.gflops, .power = first.power}, forms.whole, batch,
                                         forms.slices ? &*forms.slices : nullptr);
  }
  if (!options.cluster.power_from.empty()) take_power(planned.calibration, options.cluster.power_from);
  FormChoice chosen = choose_form(forms.whole, forms.slices ? &*forms.slices : nullptr, planned.calibration, wishes,
                                  options.cluster.dense);
  planned.sliced = chosen.sliced;
  planned.choice = std::move(chosen.choice);
  planned.plan = planned.choice->plan;
  return planned;
}

}  // namespace

int plan_command(const PlanOptions& options) {
  const Net net = load_net(options.net);
  Forms forms{.whole = cut(net)};
  if (forms.whole.trunk.empty())
    fail("{}: net {} has no convolutional layer, so there is nothing to plan", net.file, net.name);
  const bool described = !options.calibration.empty() || !options.machines.empty();
  const auto planned = described ? plan_without_slaves(options, net, forms) : plan_with_slaves(options, net, forms);
  if (!planned) return kInterrupted;
  if (options.net.format == "json") {
    print_json(*planned);
  } else {
    const std::vector<Stage>& trunk = forms.whole.trunk;
    for (std::size_t s = 0; s < trunk.size(); ++s) print_stage(*planned, trunk[s], s);
    if (planned->sliced) print_slices(*planned, *forms.slices);
    print_memory(*planned, forms.of(*planned).trunk);
    if (planned->choice) print_choice(*planned, forms.of(*planned).trunk);
  }
  return kSuccess;
}

}  // namespace convoy
