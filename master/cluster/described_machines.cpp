#include "master/cluster/described_machines.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "core/text.hpp"
#include "plan/choose.hpp"

namespace convoy {
namespace {

constexpr double kPayload =
    0.944;  // the part of a link's bandwidth that TCP over Ethernet delivers: 1 Gbit/s moves 118 MB/s
constexpr int kMostMachines = 256;
constexpr std::size_t kLongest = 100;  ///< of a text in an error

/// Returns a number greater than 0 and at most 1e9, or nothing.
std::optional<double> positive(std::string_view text) {
  constexpr double kMost = 1e9;
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value > 0.0 && value <= kMost)) return std::nullopt;
  return value;
}

MemberProfile profile_of(const DescribedMachine& machine, double latency, const Cut& parts, int batch) {
  const double bytes = machine.mbits * 1e6 / 8.0 * kPayload;
  MemberProfile member{.name = {}, .stages = {}, .link = {bytes, bytes}, .latency = latency, .power = machine.power};
  for (const Stage& stage : parts.trunk) {
    const bool input_gradient = needs_input_gradient(parts.trunk, member.stages.size());
    member.stages.push_back(
        {timing_at(machine.gflops, member.host.memory, stage, stage.conv.filters, batch, input_gradient)});
  }
  return member;
}

}  // namespace

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

Power power_from(const std::string& text) {
  std::vector<double> watts;
  for (std::string_view rest = text;;) {
    const std::string_view part = rest.substr(0, rest.find(':'));
    double value = 0.0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size()) {
      fail("\"{}\" is no power: \"{}\" is not a number; expected IDLE:COMPUTE:TRANSFER in W, such as 5:25:8",
           printable(text, kLongest), printable(std::string(part), kLongest));
    }
    watts.push_back(value);
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
  if (watts.size() != 3) {
    fail("\"{}\" is no power: it has {} number{}; expected IDLE:COMPUTE:TRANSFER in W, such as 5:25:8",
         printable(text, kLongest), watts.size(), watts.size() == 1 ? "" : "s");
  }
  const Power power{.idle = watts[0], .compute = watts[1], .transfer = watts[2]};
  if (const std::string fault = fault_in(power); !fault.empty()) {
    fail("\"{}\" is no power of a machine, IDLE:COMPUTE:TRANSFER in W: {}", printable(text, kLongest), fault);
  }
  return power;
}

std::vector<DescribedMachine> machines_from(const std::string& text) {
  std::vector<DescribedMachine> machines;
  std::string_view rest = text;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t at = part.find('@');
    const std::size_t times = part.find('x');
    const auto count = times == std::string_view::npos ? std::optional(1.0) : positive(part.substr(0, times));
    const std::size_t speed = times == std::string_view::npos ? 0 : times + 1;
    const auto gflops =
        at == std::string_view::npos || at < speed ? std::nullopt : positive(part.substr(speed, at - speed));
    const std::size_t slash = std::min(part.find('/'), part.size());
    const auto mbits =
        at == std::string_view::npos || slash < at ? std::nullopt : positive(part.substr(at + 1, slash - at - 1));
    if (!count || *count != std::floor(*count) || !gflops || !mbits) {
      fail(
          "\"{}\" describes no machines; expected COUNTxGFLOPS@MBITS, such as 4x240@1000, or with watts "
          "4x240@1000/5:25:8",
          part);
    }
    if (*count + static_cast<double>(machines.size()) > kMostMachines) {
      fail("\"{}\" describes more than {} machines", text, kMostMachines);
    }
    DescribedMachine machine{.gflops = *gflops, .mbits = *mbits};
    if (slash < part.size()) {
      try {
        machine.power = power_from(std::string(part.substr(slash + 1)));
      } catch (const Error& error) {
        fail("\"{}\": {}", printable(std::string(part), kLongest), error.what());
      }
    }
    machines.insert(machines.end(), static_cast<std::size_t>(*count), machine);
    if (part.size() == rest.size()) return machines;
    rest.remove_prefix(part.size() + 1);
  }
}

Calibration calibration_of(const std::vector<DescribedMachine>& slaves, const DescribedMaster& master, const Cut& parts,
                           int batch, const DenseSlices* slices) {
  const auto head_of = [&](const Cut& cut) {
    const double product = head_flops(cut) / master.gflops / 1e9;
    return HeadTimes{.per_image = 2 * product, .update = product * batch};
  };
  Calibration calibration{.batch = batch, .master = {.head = head_of(parts)}};
  const Cut& timed = slices != nullptr ? slices->cut : parts;
  if (slices != nullptr) calibration.sliced_head = head_of(timed);
  for (const Stage& stage : timed.trunk) calibration.stages.push_back(stage.name);
  calibration.master.power = master.power;
  for (const DescribedMachine& slave : slaves) {
    calibration.members.push_back(profile_of(slave, master.latency, timed, batch));
    calibration.members.back().name = fmt::format("slave{}", calibration.members.size());
  }
  const MemberProfile alone = profile_of({.gflops = master.gflops}, 0.0, parts, batch);
  calibration.seconds_alone = seconds_alone(parts.trunk, alone, batch, calibration.master.head);
  return calibration;
}

}  // namespace convoy
