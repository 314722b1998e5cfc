#include "plan/estimate.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"

namespace convoy::estimate {
namespace {

constexpr std::array<std::pair<const char*, Scheme>, 3> kSchemeNames{
    {{"sync-join", Scheme::join}, {"sync-split", Scheme::split}, {"async", Scheme::async}}};
constexpr std::array<std::pair<const char*, Server>, 2> kServerNames{
    {{"central", Server::central}, {"distributed", Server::distributed}}};

Bounds times(double factor, const Bounds& each) { return {factor * each.best, factor * each.worst}; }

/// Returns the seconds of an iteration in which every worker computes for `gradient` seconds.
Bounds synchronous(Server server, double workers, double transfer, double gradient) {
  if (server == Server::central) return {(workers + 1) * transfer + gradient, 2 * workers * transfer + gradient};
  const double seconds = 2 * transfer * (workers - 1) / workers + gradient;
  return {seconds, seconds};
}

}  // namespace

std::string to_string(Scheme scheme) {
  return std::ranges::find(kSchemeNames, scheme, &std::pair<const char*, Scheme>::second)->first;
}

std::string to_string(Server server) {
  return std::ranges::find(kServerNames, server, &std::pair<const char*, Server>::second)->first;
}

Scheme scheme_from(const std::string& text) {
  for (const auto& [name, scheme] : kSchemeNames) {
    if (text == name) return scheme;
  }
  fail("unknown scheme '{}'; expected sync-join, sync-split or async", text);
}

Server server_from(const std::string& text) {
  for (const auto& [name, server] : kServerNames) {
    if (text == name) return server;
  }
  fail("unknown server '{}'; expected central or distributed", text);
}

Bounds seconds_by_formula(const Setting& setting) {
  const double n = setting.workers;
  const double d = setting.batches;
  const double c = setting.transfer;
  const double g = setting.gradient;
  const double steps = setting.local_steps;
  switch (setting.scheme) {
    case Scheme::join: return times(d / n / steps, synchronous(setting.server, n, c, steps * g));
    case Scheme::split: return times(d, synchronous(setting.server, n, c, g / n));
    case Scheme::async: break;
  }
  if (setting.server == Server::distributed) return times(d / n, synchronous(setting.server, n, c, g));
  return {std::max((d + 1) * c + g, (n - 1) * c + d / n * (2 * c + g)), d / n * (2 * n * c + g)};
}

}  // namespace convoy::estimate
