#include "master/cluster/planning.hpp"

#include <algorithm>
#include <charconv>

#include "core/files.hpp"
#include "core/stopwatch.hpp"
#include "core/text.hpp"
#include "core/thread_team.hpp"
#include "devices/calibrate.hpp"
#include "devices/registry.hpp"
#include "kernels/host/matmul.hpp"
#include "master/cluster/profile.hpp"
#include "model/head.hpp"
#include "train/local_trunk.hpp"
#include "wire/endpoint.hpp"

namespace convoy {
namespace {

constexpr const char* kThesis = "thesis";  ///< instead of a plan's file

void notice(const Observers& observers, const std::string& text) {
  for (const auto& observer : observers) observer->on_notice(text);
}

std::vector<double> parse_shares(const std::string& text, std::size_t members) {
  std::vector<double> shares;
  const char* place = text.data();
  const char* end = text.data() + text.size();
  while (place < end) {
    double share = 0.0;
    const auto [rest, error] = std::from_chars(place, end, share);
    if (error != std::errc() || !(share >= 0.0) || share > 1e9 || (rest != end && *rest != ',')) break;
    shares.push_back(share);
    place = rest == end ? end : rest + 1;
  }
  double sum = 0.0;
  for (const double share : shares) sum += share;
  if (place != end || shares.size() != members || !(sum > 0.0)) {
    fail(
        "--shares '{}': expected {} numbers with commas between them, one for each slave and one for the master with "
        "--master-share, not all zero",
        printable(text, 100), members);
  }
  return shares;
}

/// A plan of an earlier run, for this run's members, in order.
Plan read_plan(const std::string& file, const std::vector<std::string>& members, const std::vector<Stage>& trunk,
               int batch) {
  Plan plan = plan_from_json(read_text(file), file);
  if (plan.members.size() != members.size()) {
    fail("{}: it is for {} members, this run has {}", file, plan.members.size(), members.size());
  }
  plan.members = members;
  plan.batch = batch;
  validate(plan, trunk);
  return plan;
}

std::optional<Exchange> exchange_wish(const ClusterOptions& options) {
  if (options.plan == kThesis) return Exchange::thesis;
  if (options.exchange.empty()) return std::nullopt;
  return exchange_from(options.exchange);
}

/// The greatest divisor of the batch up to `wanted`.
int nearest_divisor(int batch, int wanted) {
  int divisor = std::min(batch, wanted);
  while (batch % divisor != 0) --divisor;
  return divisor;
}

int micro_batches_of(const ClusterOptions& options, int batch) {
  if (batch % options.micro_batch != 0) {
    fail("--micro-batch {}: the batch of {} is not divisible by it; take for example {}", options.micro_batch, batch,
         nearest_divisor(batch, options.micro_batch));
  }
  return batch / options.micro_batch;
}

/// What the user asks for besides shares.
void override_plan(const ClusterOptions& options, Plan& plan) {
  if (!options.wire.empty()) plan.wire = number_type_from(options.wire);
  if (const auto exchange = exchange_wish(options)) set_exchange(plan, *exchange);
  if (options.micro_batch > 0) plan.micro_batches = micro_batches_of(options, plan.batch);
}

/// Of a call of work(): the least of three blocks. Where a quota lets the process compute in bursts, shorter ones would miss
/// its pauses.
template <class Work>
double seconds_of(const Work& work) {
  constexpr double kBlock = 0.06;
  work();  // makes and fills what later calls find
  double least = 1e9;
  for (int block = 0; block < 3; ++block) {
    const Stopwatch watch;
    int calls = 0;
    do {
      work();
      ++calls;
    } while (watch.seconds() < kBlock);
    least = std::min(least, watch.seconds() / calls);
  }
  return least;
}

/// The heads on batches of that size.
HeadTimes time_heads(const Cut& cut, int batch, int threads) {
  set_matmul_threads(threads > 0 ? threads : hardware_threads());
  const std::vector<int> labels(static_cast<std::size_t>(batch), 0);
  HeadTimes times;
  for (const CutHead& each : cut.heads) {
    Head<float> head(each, cut.moments, batch);
    const Tensor maps({batch, each.maps.channels, each.maps.height, each.maps.width}, 0.5F);
    const auto pass = [&](int count) {
      return seconds_of([&] {
        head.forward(maps, {.training = true, .seed = 0}, {0, count});
        head.loss(labels, batch, {0, count});
        head.backward({0, count});
      });
    };
    const int few = std::max(1, batch / 8);
    const double whole = pass(batch);
    const double part = few < batch ? pass(few) : 0.0;
    const double per_image = std::clamp((whole - part) / std::max(1, batch - few), 0.0, whole / batch);
    times.per_image += per_image;
    times.fixed += std::max(0.0, whole - per_image * batch);  // rounding may leave less than nothing
    times.update += seconds_of([&] {
      head.backward_weights();
      head.update({.learning_rate = 0.0F});
    });
  }
  return times;
}

struct TrunkTimes {
  double passes = 1e9;  ///< forward and backward, seconds
  double update = 1e9;
};

/// The least of some rounds on so many images.
TrunkTimes time_trunk(const Cut& cut, int images, Device& device) {
  LocalTrunk trunk(cut.trunk, input_shape(cut.trunk.front(), images), device);
  const Tensor input(input_shape(cut.trunk.front(), images), 0.5F);
  TrunkTimes times;
  const Stopwatch whole;
  for (int round = 0; round < 4 && (round < 2 || whole.seconds() < 2.0); ++round) {
    Stopwatch watch;
    trunk.forward(input, {.training = true, .seed = 0});
    std::vector<const Tensor*> gradients;
    for (std::size_t i = 0; i < cut.heads.size(); ++i) gradients.push_back(&trunk.output(i));
    trunk.backward(gradients);
    device.finish();
    times.passes = std::min(times.passes, watch.restart());
    trunk.update({.learning_rate = 0.0F});
    device.finish();
    times.update = std::min(times.update, watch.seconds());
  }
  return times;
}

/// Seconds of a step on this machine by itself; 0 where its memory is too small.
double time_alone(const Cut& cut, int batch, Device& device, std::size_t memory, const HeadTimes& head) {
  std::size_t bytes = 0;
  for (const Stage& stage : cut.trunk) bytes += shard_bytes(stage, stage.conv.filters, batch, &stage != &cut.trunk[0]);
  if (memory != 0 && bytes > memory) return 0.0;
  // The whole batch where that is short: few images need not take their part of the time that many do.
  constexpr double kShort = 3.0;
  int timed = calibration_batch(batch);
  TrunkTimes times = time_trunk(cut, timed, device);
  while (timed < batch && times.passes * std::min(4 * timed, batch) / timed < kShort) {
    timed = std::min(4 * timed, batch);
    times = time_trunk(cut, timed, device);
  }
  return head.pass(batch) + head.update + times.passes * batch / timed + times.update;
}

/// Slaves in the roster's order, then this machine.
std::vector<std::string> members_of(const Work& work, const Roster& roster) {
  std::vector<std::string> members;
  for (const SlaveInfo& slave : roster.slaves()) members.push_back(slave.name);
  if (work.options.share) members.emplace_back(kMasterName);
  return members;
}

/// Times the members whom nobody has timed yet, and chooses the plan for all.
void measure_and_choose(const Work& work, const Wishes& wishes, Planned& planned) {
  Calibration& calibration = planned.calibration;
  Roster& roster = *planned.roster;
  const bool first = calibration.stages.empty();
  // Whoever asks for an exchange wants the slaves, whatever the times.
  const bool maybe_alone = first && !wishes.exchange && !roster.slaves().empty();
  std::map<std::string, MemberProfile> timed;
  // Copies, so that the times of the others stand where a newcomer is lost while it is timed.
  for (const MemberProfile& member : calibration.members) timed[member.name] = member;
  const bool own = work.options.share && !timed.contains(kMasterName);
  std::size_t memory = 0;
  if (own || maybe_alone) {
    const DeviceInfo& info = work.device.info();
    memory = work.options.memory.empty() ? default_memory(info) : parse_memory(work.options.memory);
    memory = static_cast<std::size_t>(static_cast<double>(memory) / info.memory_factor);
  }
  std::vector<std::size_t> untimed;
  for (std::size_t slave = 0; slave < roster.slaves().size(); ++slave) {
    if (!timed.contains(roster.slaves()[slave].name)) untimed.push_back(slave);
  }
  Profiles profiles = profile_members(roster, untimed, work.device, own, memory, work.cut.trunk, work.batch);
  for (MemberProfile& member : profiles.members) timed[member.name] = std::move(member);
  if (!untimed.empty()) {
    calibration.master.host = profiles.master;
    // Of those who join later nobody knows what they get through beside the others.
    calibration.master.card = untimed.size() == roster.slaves().size() ? profiles.card : NodeLink{};
  }
  calibration.members.clear();
  for (const std::string& name : members_of(work, roster)) calibration.members.push_back(timed.at(name));
  if (first) {
    calibration.batch = work.batch;
    for (const Stage& stage : work.cut.trunk) calibration.stages.push_back(stage.name);
    calibration.master.head = time_heads(work.cut, work.batch, work.threads);
    if (maybe_alone) {
      calibration.seconds_alone = time_alone(work.cut, work.batch, work.device, memory, calibration.master.head);
    }
  }
  planned.choice = choose_plan(work.cut.trunk, work.batch, calibration.members, wishes, calibration.master);
  planned.plan = planned.choice->plan;
}

/// The plan that the user fixed, for all members that there are at the start.
void take_fixed(const Work& work, const std::vector<std::string>& members, Planned& planned) {
  if (work.options.shares.empty()) {
    planned.whole = read_plan(work.options.plan, members, work.cut.trunk, work.batch);
  } else {
    const std::vector<double> shares = parse_shares(work.options.shares, members.size());
    planned.whole = proportional_plan(work.cut.trunk, work.batch, members, shares);
  }
  override_plan(work.options, planned.whole);
  const std::vector<double> shares = work_shares(work.cut.trunk, planned.whole);
  std::set<std::string> names;
  for (std::size_t m = 0; m < members.size(); ++m) {
    planned.fixed[members[m]] = shares[m];
    names.insert(members[m]);
  }
  planned.roster->admit_only(names, "this run's shares are fixed, for other slaves; this one waits for the next");
}

Plan without_the_lost(const Work& work, const std::vector<std::string>& members, const Planned& planned) {
  if (members == planned.whole.members) return planned.whole;
  std::vector<double> shares;
  double sum = 0.0;
  for (const std::string& member : members) {
    shares.push_back(planned.fixed.at(member));
    sum += shares.back();
  }
  if (sum <= 0.0) shares.assign(members.size(), 1.0);
  Plan plan = proportional_plan(work.cut.trunk, work.batch, members, shares);
  plan.wire = planned.whole.wire;
  plan.micro_batches = planned.whole.micro_batches;
  set_exchange(plan, planned.whole.exchange);
  return plan;
}

}  // namespace

Wishes wishes_of(const ClusterOptions& options, int batch) {
  Wishes wishes{.exchange = exchange_wish(options)};
  if (wishes.exchange == Exchange::thesis && (!options.exchange.empty() || options.micro_batch > 0)) {
    fail("--plan thesis: it has a way of its own to exchange maps; leave out --exchange and --micro-batch");
  }
  if (!options.wire.empty()) wishes.wire = number_type_from(options.wire);
  if (options.micro_batch > 0) wishes.micro_batches = micro_batches_of(options, batch);
  return wishes;
}

void expect_possible(const ClusterOptions& options, const Cut& cut, int batch) {
  if (options.slaves == 0) return;
  if (options.least_slaves > options.slaves) {
    fail("--least-slaves {} is more than --slaves {}; the run could never begin", options.least_slaves, options.slaves);
  }
  if (const auto exchange = wishes_of(options, batch).exchange) expect_fits(*exchange, cut.trunk);
  wire::address_to_listen(options.listen);
  const std::size_t members = static_cast<std::size_t>(options.slaves) + (options.share ? 1 : 0);
  const bool has_plan = !options.plan.empty() && options.plan != kThesis;
  if (has_plan && !options.shares.empty()) fail("--plan {} and --shares both fix shares; leave one out", options.plan);
  if (!options.shares.empty()) parse_shares(options.shares, members);
  if (!has_plan) return;
  std::vector<std::string> names;
  for (std::size_t m = 0; m < members; ++m) names.push_back(fmt::format("member {}", m + 1));
  if (options.share) names.back() = kMasterName;
  read_plan(options.plan, names, cut.trunk, batch);
}

std::vector<std::string> idle_members(const Plan& plan) {
  std::vector<std::string> idle;
  for (std::size_t m = 0; m < plan.members.size(); ++m) {
    const bool works = std::ranges::any_of(plan.stages, [&](const StagePlan& stage) {
      return std::ranges::any_of(stage.shards, [&](const auto& shard) { return shard.member == static_cast<int>(m); });
    });
    if (works) continue;
    idle.push_back(fmt::format("{} gets no filters: with it a step would take longer, or its memory is too small",
                               plan.members[m]));
  }
  return idle;
}

void plan_members(const Work& work, const Observers& observers, Planned& planned) {
  const std::vector<std::string> members = members_of(work, *planned.roster);
  const bool fixed = !work.options.shares.empty() || (!work.options.plan.empty() && work.options.plan != kThesis);
  if (fixed) {
    if (planned.fixed.empty()) take_fixed(work, members, planned);
    planned.plan = without_the_lost(work, members, planned);
    return;
  }
  notice(observers, "timing the members on the net's stages");
  measure_and_choose(work, wishes_of(work.options, work.batch), planned);
  const double alone = planned.calibration.seconds_alone;
  notice(observers, fmt::format("plan: {}; a step takes about {:.3g} s{}", describe(planned.plan),
                                planned.choice->predicted.seconds,
                                alone > 0.0 ? fmt::format(", on this machine alone {:.3g} s", alone) : ""));
  for (const std::string& idle : idle_members(planned.plan)) notice(observers, idle);
}

}  // namespace convoy
