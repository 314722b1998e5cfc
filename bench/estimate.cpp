// Estimates of data-parallel training with a parameter server: formulas and simulation side by side.

#include <fmt/core.h>

#include <algorithm>

#include "bench/commands.hpp"
#include "bench/estimate_report.hpp"
#include "cli/command_line.hpp"
#include "master/commands/options.hpp"

namespace convoy {
namespace {

constexpr int kMostWorkers = 64;

struct EstimateOptions {
  TimeSources sources;
  std::vector<std::string> types{"sync-join", "sync-split", "async"};
  std::vector<std::string> servers{"central", "distributed"};
  int workers = 0;
  EstimateTerms terms;
  std::string output = "single";
  std::string out = "estimate";
};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_asked_for(const EstimateOptions& options, const EstimatePoint& point) {
  return contains(options.types, to_string(point.scheme)) && contains(options.servers, to_string(point.server));
}

/// Returns a point of each of `types` on each of `servers`.
std::vector<EstimatePoint> points_of(const std::vector<std::string>& types, const std::vector<std::string>& servers,
                                     const WorkerTimes& times, const EstimateTerms& terms, int workers) {
  std::vector<EstimatePoint> points;
  for (const std::string& type : types) {
    for (const std::string& server : servers) {
      points.push_back(
          estimate_point(times, terms, estimate::scheme_from(type), estimate::server_from(server), workers));
    }
  }
  return points;
}

/// Throws UsageError where a source of times is missing, or where an option has no effect.
void check(const CLI::App& command, const EstimateOptions& options) {
  const auto given = [&](const char* option) { return command.get_option(option)->count() > 0; };
  const bool measured = given("--net") || given("--from-run");
  for (const char* option : {"--t-grad", "--t-comm"}) {
    if (!measured && !given(option)) {
      throw UsageError(fmt::format("{} is missing; give it, or --net NET or --from-run FOLDER to measure it", option));
    }
  }
  if (given("--out") && options.output != "plot") throw UsageError("--out needs --output plot; no files are written");
  for (const char* option : {"--backup", "--sync-every"}) {
    if (given(option) && !contains(options.types, "sync-join")) {
      throw UsageError(fmt::format("{} is for sync-join, which --type leaves out", option));
    }
  }
  if (given("--workers") && options.terms.backup >= options.workers) {
    throw UsageError(fmt::format("--backup {} leaves no worker of {}; give at most {}", options.terms.backup,
                                 options.workers, options.workers - 1));
  }
  if (options.terms.skipped >= options.terms.batches) {
    throw UsageError(fmt::format("--skip {} leaves none of {} batches; give at most {}", options.terms.skipped,
                                 options.terms.batches, options.terms.batches - 1));
  }
  const int workers = std::max(options.workers, options.terms.backup + 1);
  if (options.terms.batches < workers) {
    throw UsageError(fmt::format("--batches {} is less than one for each of {} workers; give at least {}",
                                 options.terms.batches, workers, workers));
  }
}

void print_single(const EstimateOptions& options, const WorkerTimes& times, int workers) {
  for (const std::string& note : times.notes) fmt::print("{}\n", note);
  const std::vector<EstimatePoint> all =
      points_of(EstimateOptions{}.types, EstimateOptions{}.servers, times, options.terms, workers);
  std::vector<EstimatePoint> asked_for;
  std::ranges::copy_if(all, std::back_inserter(asked_for),
                       [&](const EstimatePoint& point) { return is_asked_for(options, point); });
  fmt::print("{} worker{}, {} batches{}; {} alone takes {:.4g} s\n\n", workers, workers == 1 ? "" : "s",
             options.terms.batches, options.terms.semaphore ? ", one transfer at a time" : "",
             times.gradient.size() > 1 ? "the fastest worker" : "one worker", all.front().alone);
  fmt::print("{}\n{}", estimate_table(asked_for), comparison_of(all));
  const auto fastest =
      std::ranges::min_element(asked_for, {}, [](const EstimatePoint& point) { return point.simulated.median; });
  fmt::print("{}", changes_of(*fastest, times, options.terms));
}

/// Returns the number of workers where none is given.
int usual_workers(const WorkerTimes& times, const EstimateTerms& terms) {
  constexpr int kUsual = 4;
  const int known = std::max({static_cast<int>(times.count()), kUsual, terms.backup + 1});
  return std::min({known, kMostWorkers, terms.batches});
}

void run_estimate(const EstimateOptions& options) {
  const WorkerTimes times = worker_times(options.sources);
  const int workers = options.workers > 0 ? options.workers : usual_workers(times, options.terms);
  if (options.output == "single") return print_single(options, times, workers);
  std::vector<EstimatePoint> points;
  for (int count = 1 + options.terms.backup; count <= workers; ++count) {
    std::ranges::move(points_of(options.types, options.servers, times, options.terms, count),
                      std::back_inserter(points));
  }
  if (options.output == "csv") {
    fmt::print("{}", estimate_csv(points, options.terms));
  } else {
    fmt::print("{}\n", draw_estimate(points, options.terms, options.out));
  }
}

/// Adds the options that say where the times come from.
void add_sources(CLI::App& command, TimeSources& sources) {
  auto* gradient =
      command
          .add_option("--t-grad", sources.gradient,
                      "seconds in which a worker computes the gradient of a batch; several numbers, separated by "
                      "commas, describe unequal workers; if there are fewer numbers than workers, they repeat")
          ->delimiter(',')
          ->check(number(1e-9, 1e9));
  auto* transfer =
      command
          .add_option(
              "--t-comm", sources.transfer,
              "seconds in which a worker's link carries all weights once, in one direction; several numbers as for "
              "--t-grad. A central server has the fastest of the links")
          ->delimiter(',')
          ->check(number(1e-9, 1e9));
  auto* net = command.add_option("--net", sources.net,
                                 "net file: its tensors are spread over distributed servers, and times that are not "
                                 "given are measured on this machine or follow from --link");
  add_set_option(command, sources.set)->needs(net);
  command.add_option("--device", sources.device, "with --net: device that is measured")
      ->needs(net)
      ->excludes(gradient)
      ->capture_default_str();
  command.add_option("--threads", sources.threads, "with --net: threads of a processor (0: all cores)")
      ->needs(net)
      ->excludes(gradient)
      ->check(whole_number(0, 1024));
  command.add_option("--batch", sources.batch, "with --net: images in a batch (default: the net file's)")
      ->needs(net)
      ->excludes(gradient)
      ->check(whole_number(1, 65536));
  command.add_option("--repeats", sources.repeats, "with --net: measured steps")
      ->needs(net)
      ->excludes(gradient)
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command
      .add_option(
          "--from-run", sources.from_run,
          "folder of a run: the workers are the slaves that it timed, with their links, or its one machine if it "
          "had no slaves")
      ->excludes(net);
  command
      .add_flag(
          "--master", sources.master,
          "with --from-run: estimate training by convoy-master, which keeps and computes the dense layers and hands "
          "out images and weights; the seconds of its own work are measured on this machine. Each replica of the run "
          "must be one slave")
      ->needs("--from-run")
      ->excludes(gradient);
  command
      .add_option("--link", sources.mbits,
                  "with --net or --from-run: speed of each machine's link, each way, in Mbit/s (default: as the run "
                  "timed it, else 1000)")
      ->excludes(transfer)
      ->check(number(1e-6, 1e9));
  command
      .add_option("--wire", sources.wire, "with --net or --from-run: number type in which weights and gradients travel")
      ->excludes(transfer)
      ->check(one_of({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
}

}  // namespace

void add_estimate(CLI::App& app) {
  auto options = std::make_shared<EstimateOptions>();
  CLI::App& command = *app.add_subcommand(
      "estimate",
      "time and speedup of data-parallel training with a parameter server, from the time of a batch's gradient and the "
      "time in which all weights travel: the best and the worst case by the formulas of Slampa (2017), a simulation "
      "with contention on the links, the fastest scheme, and the gain from other machines");
  add_sources(command, options->sources);
  command
      .add_option("--type", options->types,
                  "schemes, separated by commas: sync-join (each worker computes a whole batch, and the server applies "
                  "the mean), sync-split (workers share each batch), async (each gradient is applied as it arrives)")
      ->delimiter(',')
      ->check(one_of({"sync-join", "sync-split", "async"}))
      ->capture_default_str();
  command
      .add_option("--server", options->servers,
                  "who holds the weights, separated by commas: central (one machine that computes no gradients), "
                  "distributed (each worker holds some tensors)")
      ->delimiter(',')
      ->check(one_of({"central", "distributed"}))
      ->capture_default_str();
  command
      .add_option("--workers", options->workers, "number of workers (default: as many as have known times, at least 4)")
      ->check(whole_number(1, kMostWorkers));
  command.add_option("--batches", options->terms.batches, "batches of the training, of all workers together")
      ->check(whole_number(1, 1'000'000'000))
      ->capture_default_str();
  command
      .add_option("--skip", options->terms.skipped,
                  "number of batches at the beginning of the training whose time does not count")
      ->check(whole_number(0, 1'000'000'000))
      ->capture_default_str();
  command
      .add_option("--backup", options->terms.backup,
                  "for sync-join in the simulation: number of workers, the last ones of each iteration, whose "
                  "gradients are dropped")
      ->check(whole_number(0, kMostWorkers - 1))
      ->capture_default_str();
  command
      .add_option("--sync-every", options->terms.local_steps,
                  "for sync-join: number of batches on which a worker trains by itself between two exchanges")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command.add_flag("--semaphore", options->terms.semaphore,
                   "in the simulation, each machine sends one transfer at a time and receives one at a time");
  command
      .add_option("--jitter", options->terms.jitter,
                  "in the simulation, standard deviation of the time of a gradient, in percent of its mean")
      ->check(number(0.0, 300.0))
      ->capture_default_str();
  command.add_option("--latency", options->terms.latency, "in the simulation, latency of a message in ms")
      ->check(number(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--queue", options->terms.queue,
                  "with --master: KiB to one machine that wait in the queues of a network card ahead of data to "
                  "another machine")
      ->needs("--master")
      ->check(number(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--t-apply", options->terms.apply,
                  "in the simulation, seconds in which a server applies one gradient of all weights")
      ->check(number(0.0, 1e9))
      ->capture_default_str();
  command.add_option("--seeds", options->terms.seeds, "simulations of each point, each with jitter of its own")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command
      .add_option("--output", options->output,
                  "single: a table for the number of --workers; csv: a row for each number of workers up to it; plot: "
                  "these rows and pictures of the speedups in a folder")
      ->check(one_of({"single", "csv", "plot"}))
      ->capture_default_str();
  command.add_option("--out", options->out, "with --output plot: the folder")->capture_default_str();
  command.callback([options, &command] {
    check(command, *options);
    options->terms.models = command.get_option("--sync-every")->count() > 0;
    run_estimate(*options);
  });
}

}  // namespace convoy
