#include "bench/machines.hpp"

#include <algorithm>
#include <set>

#include "cli/checks.hpp"
#include "core/files.hpp"

namespace convoy {
namespace {

// the part of a link's bandwidth that TCP over Ethernet delivers: 1 Gbit/s moves 118 MB/s
constexpr double kPayload = 0.944;

/// Returns the floating-point operations of the heads' matrix products for one image and one pass.
double head_flops(const Cut& parts) {
  double flops = 0.0;
  for (const CutHead& head : parts.heads) {
    double inputs = static_cast<double>(head.maps.channels) * head.maps.height * head.maps.width;
    for (const Layer& layer : head.layers) {
      const auto* dense = std::get_if<Dense>(&layer.spec);
      if (dense == nullptr) continue;
      flops += 2.0 * inputs * dense->units;
      inputs = dense->units;
    }
  }
  return flops;
}

MemberProfile described(const Machines& machines, const Cut& parts, int batch, std::size_t index, double mbits) {
  const double flops = 1e9 * machines.gflops[index % machines.gflops.size()];
  const double bytes = mbits * 1e6 / 8.0 * kPayload;
  MemberProfile member{.name = {}, .stages = {}, .link = {bytes, bytes}, .latency = 1e-3 * machines.latency};
  for (const Stage& stage : parts.trunk) {
    // A stage without a convolution reads and writes its maps.
    const double values = 2.0 * static_cast<double>(output_shape(stage, batch, stage.conv.filters).size());
    const double pass = stage.kind == StageKind::convolution ? conv_flops(stage, batch, stage.conv.filters) / flops
                                                             : values * sizeof(float) / member.host.memory;
    member.stages.push_back({{.filters = stage.conv.filters,
                              .forward = pass,
                              .backward_input = member.stages.empty() ? 0.0 : pass,
                              .backward_filters = pass}});
  }
  return member;
}

}  // namespace

void add_options(CLI::App& command, Machines& machines) {
  auto* gflops =
      command
          .add_option(
              "--gflops", machines.gflops,
              "speeds of the slaves in GFLOP/s, separated by commas; with fewer numbers than slaves they repeat")
          ->delimiter(',')
          ->check(positive_number())
          ->capture_default_str();
  command.add_option("--master-gflops", machines.master_gflops, "speed of the master in GFLOP/s")
      ->check(positive_number())
      ->capture_default_str();
  command.add_option("--latency", machines.latency, "latency of a message in ms")
      ->check(number(0.0, 1e12))
      ->capture_default_str();
  command
      .add_option("--from-run", machines.from_run,
                  "folder of a run: the members that it timed replace the given speeds and links; with fewer members "
                  "than slaves they repeat")
      ->excludes(gflops);
}

Calibration calibration_of(const Machines& machines, const Cut& parts, int batch, int slaves, double mbits) {
  const double product = head_flops(parts) / machines.master_gflops / 1e9;
  Calibration calibration{.batch = batch, .master = {.head = {.per_image = 2 * product, .update = product * batch}}};
  std::vector<MemberProfile> timed;
  if (!machines.from_run.empty()) {
    const std::string file = machines.from_run + "/calibration.json";
    calibration = calibration_from_json(read_text(file), file, parts.trunk, batch);
    timed = std::exchange(calibration.members, {});
    std::erase_if(timed, [](const MemberProfile& member) { return member.name == kMasterName; });
    if (timed.empty()) fail("{}: none of its members is a slave; use a run with slaves", file);
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(slaves); ++i) {
    calibration.members.push_back(timed.empty() ? described(machines, parts, batch, i, mbits)
                                                : timed[i % timed.size()]);
    calibration.members.back().name = fmt::format("slave{}", i + 1);
  }
  return calibration;
}

SimulatedPoint simulate_point(const Cut& parts, int batch, const Calibration& calibration, const Wishes& wishes) {
  SimulatedPoint point;
  point.choice = choose_plan(parts.trunk, batch, calibration.members, wishes, calibration.master);
  point.seconds_alone = std::numeric_limits<double>::infinity();
  for (const MemberProfile& member : calibration.members) {
    point.seconds_alone =
        std::min(point.seconds_alone, convoy::seconds_alone(parts.trunk, member, batch, calibration.master.head));
  }
  std::set<int> working;
  for (const StagePlan& stage : point.choice.plan.stages) {
    for (const Tile& tile : tiles_of(stage)) working.insert(tile.member);
  }
  point.working = static_cast<int>(working.size());
  return point;
}

std::optional<Exchange> exchange_wish(const std::string& name) {
  if (name == "auto") return std::nullopt;
  return exchange_from(name);
}

}  // namespace convoy
