#include "master/report/energy_total.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace convoy {
namespace {

/// A number of J with a unit of four digits.
std::string joules_text(double joules) {
  if (std::abs(joules) < 9999.5) return fmt::format("{:.4g} J", joules);
  return fmt::format("{:.4g} kJ", joules / 1000);
}

std::string interval_text(double joules, double error) {
  return fmt::format("{} (-+ {:.2g} %)", joules_text(joules), joules != 0 ? 100 * error / std::abs(joules) : 0);
}

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/// What the readings of a meter were like: "; a new value each 5 ms, 2 wraps, 1 gap (0.3 s)".
std::string readings_text(const MachineEnergy& energy) {
  if (energy.refresh <= 0) return "";
  std::string text = energy.refresh < 1 ? fmt::format("; a new value each {:.3g} ms", 1000 * energy.refresh)
                                        : fmt::format("; a new value each {:.3g} s", energy.refresh);
  const auto counted = [](std::uint64_t count, const char* what) {
    return fmt::format(", {} {}{}", count, what, count == 1 ? "" : "s");
  };
  if (energy.wraps > 0) text += counted(energy.wraps, "wrap");
  if (energy.gaps > 0) text += counted(energy.gaps, "gap") + fmt::format(" ({:.2g} s)", energy.gap_seconds);
  return text;
}

std::string member_line(const MemberEnergy& member, double assumed_watts) {
  const MachineEnergy& energy = member.energy;
  if (!energy.measured()) {
    const std::string assumed =
        assumed_watts > 0 ? fmt::format("; assumed {:g} W (--assume-watts)", assumed_watts) : "";
    return fmt::format("  {:<16} not measurable: {}{}", member.member, energy.refusal, assumed);
  }
  const double joules = energy.joules();
  return fmt::format("  {:<16} {}, {:.4g} W; compute {:.0f} %, transfer {:.0f} %, wait {:.0f} %; {} ({}, {}){}",
                     member.member, interval_text(joules, energy.error), joules / std::max(energy.seconds, 1e-9),
                     share(energy.compute, joules), share(energy.transfer, joules), share(energy.wait, joules),
                     energy.meter, energy.scope, energy.origin, readings_text(energy));
}

/// What is in the figures besides measured energy.
std::string beside(const EnergyTotal& total) {
  std::string text;
  if (total.declared > 0) text += fmt::format(" + {} declared for network gear", joules_text(total.declared));
  if (total.assumed > 0) text += fmt::format(" + {} assumed", joules_text(total.assumed));
  return text;
}

/// Figures of a run of which a part is unmeasured say so each.
std::string figures_line(const EnergyTotal& total, const EnergyUse& use) {
  const double all = total.all();
  std::string text = fmt::format("  {:.4g} J/image, {:.4g} images/J", all / use.images, use.images / all);
  if (use.flops > 0) text += fmt::format(", {:.4g} GFLOP/s/W of convolutions", 1e-9 * use.flops / all);
  text += fmt::format(", energy-delay product {:.4g} J s", all * use.seconds);
  const bool partial = total.measured < total.members && total.assumed == 0;
  if (partial) text += "; without the members that are not measurable";
  if (total.declared > 0 || total.assumed > 0) text += "; with what is declared and assumed";
  return text;
}

}  // namespace

EnergyTotal total_of(const EnergyReport& report) {
  EnergyTotal total;
  double variance = 0;
  double idle_variance = 0;
  for (const MemberEnergy& member : report.members) {
    const MachineEnergy& energy = member.energy;
    ++total.members;
    if (!energy.measured()) {
      total.assumed += report.assumed_watts * report.seconds;
      continue;
    }
    ++total.measured;
    total.joules += energy.joules();
    total.compute += energy.compute;
    total.transfer += energy.transfer;
    total.wait += energy.wait;
    total.watts += energy.watts;
    total.wraps += energy.wraps;
    total.gaps += energy.gaps;
    total.gap_seconds += energy.gap_seconds;
    total.seconds = std::max(total.seconds, energy.seconds);
    variance += energy.error * energy.error;
    if (energy.idle_watts <= 0) continue;
    ++total.with_idle;
    total.above_idle += energy.joules() - energy.idle_watts * energy.seconds;
    idle_variance += energy.error * energy.error + std::pow(energy.idle_error * energy.seconds, 2);
  }
  total.error = std::sqrt(variance);
  total.above_idle_error = std::sqrt(idle_variance);
  total.declared = report.switch_watts * report.seconds;
  return total;
}

std::vector<std::string> energy_lines(const EnergyReport& report, const EnergyUse& use) {
  const EnergyTotal total = total_of(report);
  const bool metered =
      std::ranges::any_of(report.members, [](const MemberEnergy& member) { return !member.energy.meter.empty(); });
  if (!metered && total.declared == 0 && total.assumed == 0) return {};
  std::vector<std::string> lines;
  lines.push_back(fmt::format("energy: {} measured on {} of {} members{}", interval_text(total.joules, total.error),
                              total.measured, total.members, beside(total)));
  if (total.measured == 0) lines.back() = fmt::format("energy: nothing is measured{}", beside(total));
  for (const MemberEnergy& member : report.members) lines.push_back(member_line(member, report.assumed_watts));
  if (total.measured > 1) {
    lines.push_back(fmt::format("  {:<16} compute {}, transfer {}, wait {}", "together", joules_text(total.compute),
                                joules_text(total.transfer), joules_text(total.wait)));
  }
  if (use.images > 0 && total.all() > 0) lines.push_back(figures_line(total, use));
  if (total.with_idle > 0) {
    std::string text = fmt::format("  above idle: {}", interval_text(total.above_idle, total.above_idle_error));
    if (use.images > 0) text += fmt::format(", {:.4g} J/image", total.above_idle / use.images);
    lines.push_back(text + fmt::format("; {} of {} members", total.with_idle, total.members));
  }
  return lines;
}

std::string watts_now(const EnergyReport& report) {
  const EnergyTotal total = total_of(report);
  if (total.measured == 0) return "";
  const std::string watts = fmt::format("{:.{}f} W", total.watts, total.watts < 10 ? 1 : 0);
  return total.measured == total.members ? watts
                                         : fmt::format("{} of {}/{} members", watts, total.measured, total.members);
}

}  // namespace convoy
