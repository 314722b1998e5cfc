#include "master/cluster.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <arpa/inet.h>

#include <array>
#include <charconv>

#include "core/stopwatch.hpp"
#include "devices/calibrate.hpp"
#include "devices/registry.hpp"
#include "kernels/matmul.hpp"
#include "master/cluster_trunk.hpp"
#include "master/head.hpp"
#include "master/local_trunk.hpp"
#include "master/profile.hpp"
#include "master/run_folder.hpp"

namespace convoy {
namespace {

constexpr const char* kThesis = "thesis";  ///< instead of a plan's file

void notice(const Observers& observers, const std::string& text) {
  for (const auto& observer : observers) observer->on_notice(text);
}

/// An IPv4 address at which other machines may reach this one, or 127.0.0.1.
std::string own_address() {
  std::string address = "127.0.0.1";
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return address;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* internet = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    inet_ntop(AF_INET, &internet->sin_addr, text.data(), text.size());
    if (std::string(text.data()).rfind("127.", 0) != 0) {
      address = text.data();
      break;
    }
  }
  freeifaddrs(first);
  return address;
}

/// What to paste on the slaves: the endpoint with an address instead of a wildcard.
std::string join_address(const std::string& endpoint) {
  for (const std::string wildcard : {"tcp://0.0.0.0:", "tcp://*:"}) {
    if (endpoint.rfind(wildcard, 0) == 0) return "tcp://" + own_address() + ":" + endpoint.substr(wildcard.size());
  }
  return endpoint;
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
    fail("--shares '{}': expected {} numbers, one for each member, not all zero, as in {}", text, members,
         members == 2 ? "2,1" : "3,2,1");
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

int micro_batches_of(const ClusterOptions& options, int batch) {
  if (batch % options.micro_batch != 0) {
    fail("--micro-batch {}: the batch of {} is no multiple of it", options.micro_batch, batch);
  }
  return batch / options.micro_batch;
}

/// What the user asks for besides shares.
void override_plan(const ClusterOptions& options, Plan& plan) {
  if (!options.wire.empty()) plan.wire = number_type_from(options.wire);
  if (const auto exchange = exchange_wish(options)) set_exchange(plan, *exchange);
  if (options.micro_batch > 0) plan.micro_batches = micro_batches_of(options, plan.batch);
}

/// Seconds that the head takes for a batch, forward and backward.
double time_head(const Cut& cut, int batch) {
  Head<float> head(cut, batch);
  const Tensor maps({batch, cut.maps.channels, cut.maps.height, cut.maps.width}, 0.5F);
  const std::vector<int> labels(static_cast<std::size_t>(batch), 0);
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    const Stopwatch watch;
    head.forward(maps, {.training = true, .seed = 0});
    head.loss(labels, batch);
    head.backward();
    best = std::min(best, watch.seconds());
  }
  return best;
}

/// Seconds of a step on this machine by itself; 0 where its memory is too small.
double time_alone(const Cut& cut, int batch, Device& device, std::size_t memory, double head_seconds) {
  std::size_t bytes = 0;
  for (const Stage& stage : cut.trunk) bytes += shard_bytes(stage, stage.conv.filters, batch, &stage != &cut.trunk[0]);
  if (memory != 0 && bytes > memory) return 0.0;
  const int timed = calibration_batch(batch);
  LocalTrunk trunk(cut.trunk, input_shape(cut.trunk.front(), timed), device);
  const Tensor images(input_shape(cut.trunk.front(), timed), 0.5F);
  double passes = 1e9;
  double update = 1e9;
  const Stopwatch whole;
  for (int round = 0; round < 4 && (round < 2 || whole.seconds() < 2.0); ++round) {
    Stopwatch watch;
    trunk.backward(trunk.forward(images, {.training = true, .seed = 0}));
    device.finish();
    passes = std::min(passes, watch.restart());
    trunk.update({.learning_rate = 0.0F});
    device.finish();
    update = std::min(update, watch.seconds());
  }
  return head_seconds + passes * batch / timed + update;
}

/// The plan by measured times, and whether this machine alone would do better.
void measure_and_choose(const ClusterOptions& options, const Cut& cut, int batch, Device& device, Planned& planned) {
  // Whoever asks for an exchange wants the slaves, whatever the times.
  const Wishes wishes = wishes_of(options, batch);
  const bool maybe_alone = !wishes.exchange && !planned.roster->slaves().empty();
  std::size_t memory = 0;
  if (options.share || maybe_alone) {
    memory = options.memory.empty() ? default_memory(device.info()) : parse_memory(options.memory);
    memory = static_cast<std::size_t>(static_cast<double>(memory) / device.info().memory_factor);
  }
  Calibration& calibration = planned.calibration;
  calibration.batch = batch;
  for (const Stage& stage : cut.trunk) calibration.stages.push_back(stage.name);
  calibration.members = profile_members(*planned.roster, options.share ? &device : nullptr, memory, cut.trunk, batch);
  calibration.head_seconds = time_head(cut, batch);
  if (maybe_alone) calibration.seconds_alone = time_alone(cut, batch, device, memory, calibration.head_seconds);
  planned.choice = choose_plan(cut.trunk, batch, calibration.members, wishes, calibration.head_seconds);
  planned.plan = planned.choice->plan;
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

std::optional<Planned> make_plan_with_slaves(const ClusterOptions& options, const std::string& run, const Cut& cut,
                                             int batch, Device& device, const Observers& observers,
                                             const std::atomic<bool>& stop) {
  wishes_of(options, batch);  // what contradicts itself, before anybody is waited for
  Planned planned;
  planned.roster = std::make_unique<Roster>(options.listen, run);
  Roster& roster = *planned.roster;
  const std::string join = "convoy-slave " + join_address(roster.endpoint());
  const bool complete = roster.gather(options.slaves, stop, [&] {
    const std::size_t here = roster.slaves().size();
    std::string names;
    for (const SlaveInfo& slave : roster.slaves()) {
      names += fmt::format("{}{} ({})", names.empty() ? ": " : ", ", slave.name, slave.device);
    }
    const bool waiting = static_cast<int>(here) < options.slaves;
    notice(observers, fmt::format("{} of {} slaves{}{}", here, options.slaves, names,
                                  waiting ? "; on each further machine run: " + join : ""));
  });
  if (!complete) return std::nullopt;

  std::vector<std::string> members;
  for (const SlaveInfo& slave : roster.slaves()) members.push_back(slave.name);
  if (options.share) members.emplace_back("master");
  const bool thesis = options.plan == kThesis;
  if (!options.plan.empty() && !thesis) {
    planned.plan = read_plan(options.plan, members, cut.trunk, batch);
    override_plan(options, planned.plan);
  } else if (!options.shares.empty()) {
    planned.plan = proportional_plan(cut.trunk, batch, members, parse_shares(options.shares, members.size()));
    override_plan(options, planned.plan);
  } else {
    notice(observers, "timing the members on the net's stages");
    measure_and_choose(options, cut, batch, device, planned);
    const double alone = planned.calibration.seconds_alone;
    notice(observers, fmt::format("plan: {}; a step takes about {:.3g} s{}", describe(planned.plan),
                                  planned.choice->predicted.seconds,
                                  alone > 0.0 ? fmt::format(", on this machine alone {:.3g} s", alone) : ""));
    for (const std::string& idle : idle_members(planned.plan)) notice(observers, idle);
  }
  return planned;
}

std::unique_ptr<Cluster> Cluster::assemble(const ClusterOptions& options, const NetOptions& net_options, const Net& net,
                                           const Cut& cut, const Observers& observers, const std::atomic<bool>& stop) {
  auto cluster = std::make_unique<Cluster>();
  const int batch = net.training.batch;
  cluster->device_ = make_device(net_options.device, net_options.device_options);
  const int threads = net_options.device_options.threads;
  set_matmul_threads(threads > 0 ? threads : hardware_threads());
  if (options.slaves == 0) {
    cluster->train_alone(cut, net.input, batch);
    return cluster;
  }
  if (cut.trunk.empty()) {
    fail("{}: net {} has no convolutional layer, so there is nothing to share with slaves; leave out --slaves",
         net.file, net.name);
  }
  auto planned = make_plan_with_slaves(options, net.name, cut, batch, *cluster->device_, observers, stop);
  if (!planned) return nullptr;
  cluster->calibration_ = planned->calibration;
  if (planned->better_alone()) {
    notice(observers,
           "training on this machine alone, which is faster; --exchange star and ring use slaves all the same");
    planned->roster->dismiss("the master trains alone: with slaves it would be slower");
    cluster->train_alone(cut, net.input, batch);
    return cluster;
  }
  Device* own = options.share ? cluster->device_.get() : nullptr;
  cluster->roster_ = std::move(planned->roster);
  const std::vector<MemberProfile>& profiles = cluster->calibration_.members;
  const auto patience = patience_for(planned->plan, profiles);
  const bool shares_move = planned->plan.exchange != Exchange::thesis;
  const Rebalancing rebalancing{.profiles = shares_move ? profiles : std::vector<MemberProfile>(),
                                .notify = [&observers](const Plan& plan) {
                                  for (const auto& observer : observers) observer->on_plan(plan);
                                }};
  const auto execute = [&](const Plan& plan) {
    auto trunk = std::make_unique<ClusterTrunk>(cut.trunk, plan, *cluster->roster_, own, patience, rebalancing);
    cluster->slaves_ = trunk.get();
    cluster->trunk_ = std::move(trunk);
  };
  try {
    execute(planned->plan);
  } catch (const Unreachable& error) {
    notice(observers, fmt::format("{}; maps go through the master instead (--exchange star)", error.what()));
    set_exchange(planned->plan, Exchange::star);
    execute(planned->plan);
  }
  return cluster;
}

void Cluster::train_alone(const Cut& cut, const FeatureShape& input, int batch) {
  trunk_ = std::make_unique<LocalTrunk>(cut.trunk, Shape{batch, input.channels, input.height, input.width}, *device_);
  plan_ = whole_plan(cut.trunk, batch, "master");
}

void Cluster::dismiss(const std::string& reason) {
  if (roster_) roster_->dismiss(reason);
}

}  // namespace convoy
