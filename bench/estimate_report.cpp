#include "bench/estimate_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "bench/statistics.hpp"
#include "core/files.hpp"
#include "master/report/gnuplot.hpp"
#include "train/local_steps_learner.hpp"

namespace convoy {
namespace {

using estimate::to_string;

std::string name_of(const EstimatePoint& point) {
  return fmt::format("{} on a {} server", to_string(point.scheme), to_string(point.server));
}

double speedup_of(const EstimatePoint& point, double seconds) { return point.alone / seconds; }

/// Says that a training takes `seconds` instead of the point's.
std::string change(const std::string& what, const EstimatePoint& point, double seconds) {
  return fmt::format("  {:<34}{:>10.4g} s, {:.2f} times as fast\n", what, seconds, point.simulated.median / seconds);
}

}  // namespace

EstimatePoint estimate_point(const WorkerTimes& times, const EstimateTerms& terms, estimate::Scheme scheme,
                             estimate::Server server, int workers) {
  estimate::Workers machines = times.workers(workers);
  constexpr double kMilli = 1e-3;
  constexpr double kPercent = 1e-2;
  machines.latency = kMilli * terms.latency;
  machines.apply = terms.apply;
  constexpr double kKibi = 1024;
  if (scheme == estimate::Scheme::join && terms.models && machines.director) {
    // Moments travel with one of so many exchanges.
    const int exchanges = (kMomentSteps + terms.local_steps - 1) / terms.local_steps;
    machines.bytes = times.model.values + times.model.moments / exchanges;
    machines.director->known.clear();  // models leave whole
  }
  if (machines.director) machines.director->queue = kKibi * terms.queue;
  estimate::ReplicaRun run{.scheme = scheme,
                           .server = server,
                           .batches = terms.batches,
                           .semaphore = terms.semaphore,
                           .jitter = kPercent * terms.jitter,
                           .backup = terms.backup,
                           .local_steps = terms.local_steps,
                           .skipped = terms.skipped};
  EstimatePoint point{.scheme = scheme,
                      .server = server,
                      .workers = workers,
                      .alone = estimate::seconds_alone(machines, terms.batches - terms.skipped),
                      .setting = estimate::setting_of(machines, run)};
  point.setting.batches -= terms.skipped;
  point.formula = estimate::seconds_by_formula(point.setting);
  std::vector<double> seconds;
  std::vector<double> staleness;
  for (int seed = 1; seed <= terms.seeds; ++seed) {
    run.seed = static_cast<std::uint64_t>(seed);
    const estimate::ReplicaTimes simulated = estimate::simulate(machines, run);
    seconds.push_back(simulated.seconds);
    staleness.push_back(simulated.staleness);
  }
  const auto [low, high] = std::ranges::minmax(seconds);
  point.simulated = {low, quartiles(seconds).median, high};
  point.staleness = quartiles(staleness).median;
  return point;
}

std::string estimate_csv(const std::vector<EstimatePoint>& points, const EstimateTerms& terms) {
  std::string text =
      "type,server,workers,batches,gradient_s,transfer_s,best_s,worst_s,estimate_s,best_speedup,worst_speedup,"
      "estimate_speedup,simulated_low_s,simulated_s,simulated_high_s,simulated_speedup,staleness,semaphore,backup,sync_"
      "every\n";
  for (const EstimatePoint& p : points) {
    const estimate::Bounds& f = p.formula;
    text += fmt::format("{},{},{},{},{:.6g},{:.6g},{:.6f},{:.6f},{:.6f},{:.4f},{:.4f},{:.4f},", to_string(p.scheme),
                        to_string(p.server), p.workers, terms.batches, p.setting.gradient, p.setting.transfer, f.best,
                        f.worst, f.mean(), speedup_of(p, f.best), speedup_of(p, f.worst), speedup_of(p, f.mean()));
    text += fmt::format("{:.6f},{:.6f},{:.6f},{:.4f},{:.3f},{},{},{}\n", p.simulated.low, p.simulated.median,
                        p.simulated.high, speedup_of(p, p.simulated.median), p.staleness, terms.semaphore ? 1 : 0,
                        terms.backup, terms.local_steps);
  }
  return text;
}

std::string estimate_table(const std::vector<EstimatePoint>& points) {
  std::string text =
      fmt::format("{:<11}{:<12}{:^39}   {:^39}\n{:<11}{:<12}{:>10}{:>10}{:>10}{:>9}   {:>10}{:>10}{:>10}{:>9}{:>10}\n",
                  "", "", "formula", "simulation", "type", "server", "best/s", "mean/s", "worst/s", "speedup",
                  "least/s", "median/s", "most/s", "speedup", "staleness");
  for (const EstimatePoint& p : points) {
    const estimate::Bounds& f = p.formula;
    const SimulatedRange& s = p.simulated;
    text += fmt::format("{:<11}{:<12}{:>10.4g}{:>10.4g}{:>10.4g}{:>9.2f}   {:>10.4g}{:>10.4g}{:>10.4g}{:>9.2f}{:>10}\n",
                        to_string(p.scheme), to_string(p.server), f.best, f.mean(), f.worst, speedup_of(p, f.mean()),
                        s.low, s.median, s.high, speedup_of(p, s.median),
                        p.scheme == estimate::Scheme::async ? fmt::format("{:.1f}", p.staleness) : "-");
  }
  return text;
}

std::string comparison_of(std::vector<EstimatePoint> points) {
  std::ranges::sort(points, {}, [](const EstimatePoint& point) { return point.simulated.median; });
  const EstimatePoint& first = points[0];
  const EstimatePoint& second = points[1];
  const double longer = 100.0 * (second.simulated.median / first.simulated.median - 1.0);
  std::string text = fmt::format("fastest by the simulation: {}, {:.4g} s; {} takes {:.1f} % longer", name_of(first),
                                 first.simulated.median, name_of(second), longer);
  if (second.simulated.low <= first.simulated.high) text += ", and the ranges of both overlap";
  text += "\n";
  if (first.simulated.median >= first.alone) {
    text += fmt::format("one worker alone takes {:.4g} s, so none of the schemes pays\n", first.alone);
  }
  return text;
}

std::string changes_of(const EstimatePoint& point, const WorkerTimes& times, const EstimateTerms& terms) {
  const auto seconds = [&](const WorkerTimes& changed, const EstimateTerms& how, int workers) {
    return estimate_point(changed, how, point.scheme, point.server, workers).simulated.median;
  };
  std::string text = name_of(point) + " would take\n";
  if (point.workers < terms.batches) {
    text += change("with one more worker", point, seconds(times, terms, point.workers + 1));
  }
  WorkerTimes faster = times;
  faster.bytes *= 0.5;
  text += change("with twice the bandwidth", point, seconds(faster, terms, point.workers));
  EstimateTerms turned = terms;
  turned.semaphore = !terms.semaphore;
  return text + change(terms.semaphore ? "without the semaphore" : "with the semaphore", point,
                       seconds(times, turned, point.workers));
}

namespace {

/// Returns a gnuplot script: for each scheme the range of the simulation, and a dashed line for the formula.
std::string script_for(const std::vector<EstimatePoint>& points, estimate::Server server, const std::string& picture) {
  std::map<std::string, std::string> rows;
  for (const EstimatePoint& p : points) {
    if (p.server != server) continue;
    rows[to_string(p.scheme)] +=
        fmt::format("{} {:.6g} {:.6g} {:.6g} {:.6g}\n", p.workers, speedup_of(p, p.simulated.median),
                    speedup_of(p, p.simulated.high), speedup_of(p, p.simulated.low), speedup_of(p, p.formula.mean()));
  }
  std::string data;
  std::vector<std::string> lines;
  for (const auto& [scheme, text] : rows) {
    const std::size_t k = lines.size() / 2;
    data += fmt::format("$line{} << END\n{}END\n", k, text);
    lines.push_back(
        fmt::format("$line{0} using 1:2:3:4 with yerrorlines linetype {1} title '{2}, simulated'", k, k + 1, scheme));
    lines.push_back(
        fmt::format("$line{0} using 1:5 with lines dashtype 2 linetype {1} title '{2}, formula'", k, k + 1, scheme));
  }
  return fmt::format(
      "{}set terminal pngcairo size 900,600\nset output '{}'\nset xlabel 'workers'\n"
      "set ylabel 'speedup over one worker'\nset title '{} server'\nset yrange [0:*]\nset xtics 1\nset grid\n"
      "set key outside bottom center horizontal\nplot {}\n",
      data, picture, to_string(server), fmt::join(lines, ", \\\n     "));
}

}  // namespace

std::string draw_estimate(const std::vector<EstimatePoint>& points, const EstimateTerms& terms,
                          const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("{}: the folder cannot be created: {}", folder, error.message());
  write_text(folder + "/estimate.csv", estimate_csv(points, terms));
  std::vector<std::string> files{"estimate.csv"};
  bool drawn = true;
  for (const estimate::Server server : {estimate::Server::central, estimate::Server::distributed}) {
    if (std::ranges::find(points, server, &EstimatePoint::server) == points.end()) continue;
    const std::string name = "speedup-" + to_string(server);
    write_text(fmt::format("{}/{}.gnuplot", folder, name), script_for(points, server, name + ".png"));
    const bool made = run_gnuplot(folder, name + ".gnuplot");
    files.push_back(name + (made ? ".png" : ".gnuplot"));
    drawn = drawn && made;
  }
  return fmt::format("{}: {}{}", folder, fmt::join(files, ", "), drawn ? "" : " (gnuplot is not installed, or failed)");
}

}  // namespace convoy
