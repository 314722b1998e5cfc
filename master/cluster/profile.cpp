#include "master/cluster/profile.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/stopwatch.hpp"
#include "core/text.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;

/// If all passes together take longer than this, in seconds, fewer images are timed, so that the passes can be repeated
/// more often. A long pass would run only once, and other work on the machine could falsify its time.
constexpr double kLong = 0.4;
/// The longest silence of a slave during one timing. Timings stop early on slow devices, so a slower slave is useless.
constexpr auto kCalibrationPatience = 120s;

/// Returns the next message of a slave in `awaited`. Throws PeerLost if is_due() rejects it; `due` names the expected
/// message in the error.
Crew::Arrival next_answer(Crew& crew, const std::vector<std::size_t>& awaited, const std::string& due,
                          const std::function<bool(const wire::Message&)>& is_due) {
  Crew::Arrival arrival = *crew.receive(awaited, kCalibrationPatience);
  // Messages of other members belong to the plan that is about to end.
  while (std::ranges::find(awaited, arrival.slave) == awaited.end()) {
    arrival = *crew.receive(awaited, kCalibrationPatience);
  }
  const std::string& name = crew.slaves()[arrival.slave].name;
  if (const auto* failed = std::get_if<wire::Failed>(&arrival.envelope.message)) {
    throw PeerLost(name,
                   fmt::format("slave {} cannot compute the net: {}", name, printable(failed->reason, kMostWords)));
  }
  if (!is_due(arrival.envelope.message)) {
    throw PeerLost(name, fmt::format("slave {} broke the protocol: {} came where {} was due", name,
                                     wire::name_of(arrival.envelope.message), due));
  }
  return arrival;
}

struct Transfer {
  double there = 0.0;  ///< seconds from master to slave
  double back = 0.0;   ///< seconds from slave to master
  HostSpeed slave;
};

wire::Envelope probe_piece() {
  wire::Envelope piece{wire::Piece{}, wire::Payload(wire::kPieceBytes)};
  std::ranges::fill(piece.payload.bytes(), std::byte{1});
  return piece;
}

/// Sends `pieces` Pieces to a slave, which sends them back, and times both directions.
Transfer time_transfer(Crew& crew, std::size_t slave, std::uint32_t pieces) {
  const wire::Envelope piece = probe_piece();
  Stopwatch watch;
  crew.send(slave, {wire::Probe{pieces}, {}});
  for (std::uint32_t i = 0; i < pieces; ++i) crew.send(slave, piece);
  const Crew::Arrival answer =
      next_answer(crew, {slave}, "Probed", [](const auto& m) { return std::holds_alternative<wire::Probed>(m); });
  Transfer transfer{.there = watch.restart(), .slave = std::get<wire::Probed>(answer.envelope.message).host};
  for (std::uint32_t i = 0; i < pieces; ++i) {
    next_answer(crew, {slave}, "Piece", [](const auto& m) { return std::holds_alternative<wire::Piece>(m); });
  }
  transfer.back = watch.seconds();
  return transfer;
}

/// Measures the bandwidth of the link to a slave in both directions, its latency, and the computing time that each byte
/// costs on both machines. Sends more and more bytes until a transfer is long enough to measure. `profile` gets the
/// slave's results, `master` those of this machine.
void measure_link(Crew& crew, std::size_t slave, const HostTimes& own, MemberProfile& profile, HostSpeed& master) {
  constexpr double kLongEnough = 0.15;
  constexpr std::uint32_t kMostPieces = 64;
  double round_trip = kLongEnough;
  for (int i = 0; i < 5; ++i) round_trip = std::min(round_trip, time_transfer(crew, slave, 0).there);
  profile.latency = round_trip / 2.0;
  for (std::uint32_t pieces = 1;; pieces *= 4) {
    const double before = process_seconds();
    const Transfer seconds = time_transfer(crew, slave, pieces);
    const double bytes = static_cast<double>(pieces) * static_cast<double>(wire::kPieceBytes);
    const double there = std::max(seconds.there - round_trip, seconds.there / 2.0);
    profile.link = {.out = bytes / seconds.back, .in = bytes / there};
    profile.host = seconds.slave;
    master = host_speed(own, process_seconds() - before, 2.0 * bytes);
    if ((there > kLongEnough && seconds.back > kLongEnough) || pieces == kMostPieces) return;
  }
}

/// Measures the total bandwidth to all slaves at once and from all slaves at once, until the last slave is done. The
/// result includes the loss that arises when TCP shares the master's link among many slaves, perhaps unequally.
NodeLink measure_card(Crew& crew, const std::vector<std::size_t>& slaves, const std::vector<MemberProfile>& profiles) {
  constexpr double kLongEnough = 0.25;
  constexpr double kTooLong = 2.0;
  constexpr double kFewest = 6.0;  // TCP needs so many Pieces to reach its full rate; kTooLong may still reduce them
  constexpr double kMost = 64.0;
  double fastest = 0.0;
  for (std::size_t i = 0; i < slaves.size(); ++i) fastest = std::max(fastest, profiles[i].link.in);
  const double each = fastest / static_cast<double>(slaves.size() * wire::kPieceBytes);  // Pieces a second, each slave
  const double wanted = std::clamp(kLongEnough * each, kFewest, kMost);
  const auto pieces = static_cast<std::uint32_t>(std::clamp(kTooLong * each, 1.0, wanted));
  const wire::Envelope piece = probe_piece();
  const Stopwatch watch;
  for (const std::size_t slave : slaves) crew.send(slave, {wire::Probe{pieces}, {}});
  for (std::uint32_t i = 0; i < pieces; ++i) {
    for (const std::size_t slave : slaves) crew.send(slave, piece);
  }
  std::vector<std::uint32_t> due(crew.slaves().size(), pieces + 1);  // messages
  std::vector<std::size_t> awaited = slaves;
  double first_answer = 0.0;
  double there = 0.0;
  while (!awaited.empty()) {
    const Crew::Arrival arrival = next_answer(crew, awaited, "Probed or Piece", [](const auto& m) {
      return std::holds_alternative<wire::Probed>(m) || std::holds_alternative<wire::Piece>(m);
    });
    if (std::holds_alternative<wire::Probed>(arrival.envelope.message)) there = watch.seconds();
    if (first_answer == 0.0) first_answer = there;
    if (--due[arrival.slave] == 0) std::erase(awaited, arrival.slave);
  }
  const double bytes = static_cast<double>(pieces * slaves.size() * wire::kPieceBytes);
  constexpr double kLeast = 1e-6;  // a hostile slave may answer before everything was sent
  return {.out = bytes / std::max(kLeast, there), .in = bytes / std::max(kLeast, watch.seconds() - first_answer)};
}

bool holds(const MemberProfile& member, const ShardSpec& spec) {
  return member.memory == 0 || shard_bytes(spec.stage, spec.filters.count, spec.batch, spec.input_gradient,
                                           member.filter_block) <= member.memory;
}

using Timings = std::vector<std::optional<Timing>>;  // by member

/// Times the shard on every member with enough memory for it. `members` has the slaves in the order of `slaves`, and
/// this machine at the end if it computes a share.
Timings time_members(Crew& crew, const std::vector<std::size_t>& slaves, Device& device, KnownTimes& known, bool share,
                     const ShardSpec& spec, int repeats, const std::vector<MemberProfile>& members) {
  Timings timings(members.size());
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < slaves.size(); ++i) {
    if (!holds(members[i], spec)) continue;
    asked.push_back(slaves[i]);
    crew.send(slaves[i], {wire::Calibrate{.stage = spec.stage,
                                          .filters = static_cast<std::uint32_t>(spec.filters.count),
                                          .batch = static_cast<std::uint32_t>(spec.batch),
                                          .input_gradient = spec.input_gradient,
                                          .repeats = static_cast<std::uint32_t>(repeats)},
                          {}});
  }
  if (share && holds(members.back(), spec)) timings.back() = time_shard(known, device, spec, repeats);
  while (!asked.empty()) {
    const auto [slave, envelope] = next_answer(
        crew, asked, "Calibrated", [](const auto& m) { return std::holds_alternative<wire::Calibrated>(m); });
    const auto& timing = std::get<wire::Calibrated>(envelope.message);
    timings[std::ranges::find(slaves, slave) - slaves.begin()] = {
        spec.filters.count, timing.forward, timing.backward_input, timing.backward_filters, timing.update};
    std::erase(asked, slave);
  }
  return timings;
}

double longest(const Timings& timings) {
  double seconds = 0.0;
  for (const auto& timing : timings) {
    if (timing) seconds = std::max(seconds, timing->seconds());
  }
  return seconds;
}

/// The timings of one shard on two numbers of images.
struct ByImages {
  int images = 0;
  Timings whole;
  int fewer = 0;
  Timings part;
};

/// Times the shard of `filters` filters on about `images` images and on fewer.
ByImages time_by_images(const std::function<Timings(int filters, int images)>& timed, int filters, int images) {
  int fewer = std::max(1, images / 4);
  Timings part = timed(filters, fewer);
  if (fewer == images) return {images, part, fewer, part};
  if (longest(part) <= kLong) return {images, timed(filters, images), fewer, part};
  const Timings whole = part;
  images = fewer;
  fewer = std::max(1, images / 4);
  if (fewer < images) part = timed(filters, fewer);
  return {images, whole, fewer, part};
}

/// Takes for fewer filters the same proportion between the two numbers of images as for all filters.
ByImages in_proportion(const Timings& whole, const ByImages& all) {
  ByImages times{all.images, whole, all.fewer, whole};
  for (std::size_t m = 0; m < whole.size(); ++m) {
    if (!whole[m]) continue;
    for (double Timing::*pass : {&Timing::forward, &Timing::backward_input, &Timing::backward_filters}) {
      // A member without the memory for all filters tells no proportion. It takes that of a pass without a constant
      // part.
      const bool tells = all.whole[m] && all.part[m] && (*all.whole[m]).*pass > 0.0;
      const double proportion =
          tells ? (*all.part[m]).*pass / (*all.whole[m]).*pass : static_cast<double>(all.fewer) / all.images;
      (*times.part[m]).*pass = (*whole[m]).*pass * proportion;
    }
  }
  return times;
}

/// Returns for each stage the first one that does the same work. A stage that computes no gradient for its input, such
/// as the first of all, does other work than one that does.
std::vector<std::size_t> first_of_same_work(const std::vector<Stage>& trunk) {
  std::vector<std::size_t> first(trunk.size(), 0);
  std::map<std::pair<std::string, bool>, std::size_t> known;
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    first[s] = known.emplace(std::pair(describe_work(trunk[s]), needs_input_gradient(trunk, s)), s).first->second;
  }
  return first;
}

/// Extrapolates the time of a batch from the timings of two smaller ones. The line through both has the time that a
/// pass takes at any batch size as its value at 0 images.
Timing for_batch(const Timing& whole, int images, const Timing& part, int fewer, int batch) {
  const auto call = [&](double all, double some) {
    if (fewer == images) return 0.0;
    return std::clamp((images * some - fewer * all) / (images - fewer), 0.0, std::min(all, some));
  };
  const auto scaled = [&](double seconds, double once) { return once + (seconds - once) * batch / images; };
  Timing timing = whole;  // an update does not depend on the batch
  timing.forward_call = call(whole.forward, part.forward);
  timing.input_call = call(whole.backward_input, part.backward_input);
  timing.forward = scaled(whole.forward, timing.forward_call);
  timing.backward_input = scaled(whole.backward_input, timing.input_call);
  timing.backward_filters = scaled(whole.backward_filters, call(whole.backward_filters, part.backward_filters));
  return timing;
}

}  // namespace

Profiles profile_members(Crew& crew, const std::vector<std::size_t>& slaves, Device& device, KnownTimes& known,
                         bool share, std::size_t own_memory, const std::vector<Stage>& trunk, int batch) {
  std::vector<MemberProfile> profiles;
  const auto add = [&](const std::string& name, std::size_t memory, double factor, int block) {
    profiles.push_back({.name = name,
                        .memory = memory,
                        .memory_factor = factor,
                        .filter_block = block,
                        .stages = std::vector<std::vector<Timing>>(trunk.size())});
  };
  for (const std::size_t slave : slaves) {
    const SlaveInfo& info = crew.slaves()[slave];
    add(info.name, info.memory, info.memory_factor, info.filter_block);
  }
  if (share)
    add(kMasterName, own_memory, device.info().memory == 0 ? device.info().memory_factor : 0.0,
        device.info().filter_block);
  const HostTimes host = time_host(device.info());
  HostSpeed master = host_speed(host, 0.0, 1.0);
  for (std::size_t i = 0; i < slaves.size(); ++i) measure_link(crew, slaves[i], host, profiles[i], master);
  if (share) profiles.back().host = master;
  const NodeLink card = slaves.size() > 1 ? measure_card(crew, slaves, profiles) : NodeLink{};

  const std::vector<std::size_t> first = first_of_same_work(trunk);
  std::size_t different = 0;
  for (std::size_t s = 0; s < trunk.size(); ++s) different += first[s] == s ? 1 : 0;
  const TimingEffort effort = timing_effort(different);
  for (std::size_t s = 0; s < trunk.size(); ++s) {
    if (first[s] < s) {
      for (MemberProfile& member : profiles) member.stages[s] = member.stages[first[s]];
      continue;
    }
    const auto timed = [&](int filters, int images) {
      return time_members(crew, slaves, device, known, share,
                          {.stage = trunk[s],
                           .filters = {0, filters},
                           .batch = images,
                           .input_gradient = needs_input_gradient(trunk, s)},
                          effort.repeats, profiles);
    };
    const std::vector<int> counts = calibration_filters(trunk[s], effort);
    std::vector<ByImages> by_count = {time_by_images(timed, counts.back(), calibration_batch(batch))};
    const ByImages all = by_count.front();
    for (std::size_t i = counts.size() - 1; i > 0; --i) {
      const int filters = counts[i - 1];
      by_count.insert(by_count.begin(), effort.all_calls ? time_by_images(timed, filters, calibration_batch(batch))
                                                         : in_proportion(timed(filters, all.images), all));
    }
    for (const ByImages& times : by_count) {
      for (std::size_t m = 0; m < profiles.size(); ++m) {
        if (times.whole[m]) {
          profiles[m].stages[s].push_back(for_batch(*times.whole[m], times.images, *times.part[m], times.fewer, batch));
        }
      }
    }
  }
  return {std::move(profiles), master, card};
}

std::chrono::milliseconds patience_for(const Plan& plan, const std::vector<MemberProfile>& profiles) {
  constexpr double kMultiple = 20.0;
  if (profiles.empty()) return 10min;
  double longest = 0.0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const Tile& tile : tiles_of(plan.stages[s])) {
      const auto member = static_cast<std::size_t>(tile.member);
      if (member >= profiles.size() || profiles[member].stages.empty()) continue;
      longest = std::max(longest, predict_seconds(profiles[member], s, tile.filters.count));
    }
  }
  return std::max<std::chrono::milliseconds>(30s,
                                             std::chrono::milliseconds(static_cast<long>(kMultiple * longest * 1e3)));
}

}  // namespace convoy
