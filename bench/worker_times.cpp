#include "bench/worker_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "bench/director.hpp"
#include "bench/statistics.hpp"
#include "bench/training_steps.hpp"
#include "core/files.hpp"
#include "core/stopwatch.hpp"
#include "master/cluster/described_machines.hpp"
#include "plan/calibration.hpp"
#include "plan/choose.hpp"
#include "plan/plan.hpp"

namespace convoy {
namespace {

constexpr double kBytesPerMbit = 1e6 / 8;
constexpr double kUsualMbits = 1000.0;

NodeLink link_of(double bytes_per_second) { return {bytes_per_second, bytes_per_second}; }

/// Sets the weights' tensors and their bytes in transit.
void take_weights(const Net& net, const std::string& wire, WorkerTimes& times) {
  const NumberType type = number_type_from(wire);
  times.tensors.clear();
  times.bytes = 0.0;
  for (const std::size_t size : tensor_sizes(net)) {
    times.tensors.push_back(static_cast<double>(bytes_of(type, size)));
    times.bytes += times.tensors.back();
  }
  if (times.tensors.empty()) fail("{}: no layer of the net has weights, so nothing is trained", net.file);
  times.notes.push_back(
      fmt::format("the weights of {} have {:.4g} MB in {}", net.name, 1e-6 * times.bytes, to_string(type)));
}

/// Takes the same link for all machines, as other commands describe one.
void take_links(const Net& net, double mbits, WorkerTimes& times) {
  const Calibration described = calibration_of({{.mbits = mbits}}, {}, cut(net), net.training.batch);
  times.links = {described.members.front().link};
  times.server = times.links.front();
  times.notes.push_back(fmt::format("each link has {:g} Mbit/s each way, so that all weights take {:.4g} s", mbits,
                                    times.bytes / times.server.out));
}

double measured_step(const TimeSources& sources, const Net& net, int batch) {
  TrainingSteps steps(sources.net, sources.set, batch, sources.device, {.threads = sources.threads});
  steps.step();  // compiles kernels and fills caches
  std::vector<double> seconds;
  for (int round = 0; round < sources.repeats; ++round) {
    const Stopwatch watch;
    steps.step();
    seconds.push_back(watch.seconds());
  }
  const double median = quartiles(seconds).median;
  if (!(median > 0.0)) fail("{}: a step takes no time that can be measured; take a larger batch", net.file);
  return median;
}

WorkerTimes from_net(const TimeSources& sources) {
  const Net net = read_net(sources.net, sources.set);
  const int batch = sources.batch > 0 ? sources.batch : net.training.batch;
  WorkerTimes times;
  if (sources.gradient.empty()) {
    times.gradient = {measured_step(sources, net, batch)};
    times.notes.push_back(fmt::format("a step of {} on {} images took {:.4g} s on {} (median of {})", net.name, batch,
                                      times.gradient.front(), sources.device, sources.repeats));
  }
  take_weights(net, sources.wire, times);
  if (sources.transfer.empty()) take_links(net, sources.mbits.value_or(kUsualMbits), times);
  return times;
}

/// Returns the timings of a run's slaves. Throws Error where the file is not of this net and batch.
Calibration calibration_of_slaves(const Net& net, const Cut& parts, const std::string& file) {
  const std::string text = read_text(file);
  const int batch = calibration_from_json(text, file).batch;
  if (batch != net.training.batch) {
    fail("{}: the timings are for a batch of {}, but config.yaml beside it has one of {}; give the folder of one run",
         file, batch, net.training.batch);
  }
  Calibration timed = calibration_from_json(text, file, parts.trunk, batch);
  std::erase_if(timed.members, [](const MemberProfile& member) { return is_master(member.name); });
  if (timed.members.empty()) fail("{}: none of its members is a slave; give the folder of a run with slaves", file);
  return timed;
}

bool was_timed(const NodeLink& link) { return link.out >= 1.0 && link.in >= 1.0; }

void take_speeds(const Calibration& timed, const Cut& parts, const HeadTimes& head, const std::string& file,
                 WorkerTimes& times) {
  for (const MemberProfile& member : timed.members) {
    const double seconds = seconds_alone(parts.trunk, member, timed.batch, head);
    if (!(seconds > 0.0 && seconds < 1e18)) {
      fail("{}: {} was not timed on all stages, so its time for a batch is not known; give --t-grad", file,
           member.name);
    }
    times.gradient.push_back(seconds);
    times.notes.push_back(fmt::format("{} takes {:.4g} s for a batch of {}", member.name, seconds, timed.batch));
  }
}

/// Takes the links of a run's slaves, if all of them were timed.
void take_timed_links(const Calibration& timed, WorkerTimes& times) {
  for (const MemberProfile& member : timed.members) {
    if (!was_timed(member.link)) return;
  }
  for (const MemberProfile& member : timed.members) {
    times.links.push_back(member.link);
    times.server = {std::max(times.server.out, member.link.out), std::max(times.server.in, member.link.in)};
    times.notes.push_back(fmt::format("{}'s link carries {:.4g} Mbit/s out and {:.4g} in", member.name,
                                      member.link.out / kBytesPerMbit, member.link.in / kBytesPerMbit));
  }
  if (was_timed(timed.master.card)) times.server = timed.master.card;
}

/// Returns the fields of a line of a CSV file that has no quotation marks.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream rest(line);
  for (std::string field; std::getline(rest, field, ',');) fields.push_back(field);
  return fields;
}

/// Returns the median over the epochs of a results.csv. Throws Error naming the file.
double rate_of_results(const std::string& file) {
  std::istringstream lines(read_text(file));
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = fields_of(line);
  const auto column = std::ranges::find(names, "images_per_second") - names.begin();
  std::vector<double> rates;
  for (int number = 2; std::getline(lines, line); ++number) {
    const std::vector<std::string> fields = fields_of(line);
    const std::string text = column < static_cast<std::ptrdiff_t>(fields.size()) ? fields[column] : "";
    double rate = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
    if (error != std::errc{} || end != text.data() + text.size() || !(rate > 0.0 && rate < 1e12)) {
      fail("{}:{}: there is no images_per_second above 0; give --t-grad", file, number);
    }
    rates.push_back(rate);
  }
  if (rates.empty()) fail("{}: the run has not finished an epoch, so its speed is not known; give --t-grad", file);
  return quartiles(rates).median;
}

/// Takes the speed of a run without slaves.
void take_alone(const Net& net, const std::string& folder, WorkerTimes& times) {
  const auto slaves = net.run.find("slaves");
  if (slaves != net.run.end() && slaves->second != "0") {
    fail("{0}: the run had slaves but has no calibration.json, so the time of one machine is not known; give --t-grad",
         folder);
  }
  const double rate = rate_of_results(folder + "/results.csv");
  times.gradient = {net.training.batch / rate};
  times.notes.push_back(fmt::format("the run took {:.4g} s for a batch of {} on one machine", times.gradient.front(),
                                    net.training.batch));
}

/// Takes the weights that convoy-master sends to replicas: all but those of the dense layers.
void take_trunk(const Net& net, const estimate::Director& director, WorkerTimes& times) {
  times.tensors = director.stages;
  times.bytes = std::reduce(director.stages.begin(), director.stages.end());
  times.notes.push_back(
      fmt::format("the weights of {} before its dense layers have {:.4g} MB; the images of a batch have {:.4g} MB, and "
                  "the master works {:.4g} s for each gradient and {:.4g} s for each update",
                  net.name, 1e-6 * times.bytes, 1e-6 * director.images, director.give + director.take + director.add,
                  director.update));
}

WorkerTimes from_run(const TimeSources& sources) {
  const Net net = read_net(sources.from_run + "/config.yaml");
  const std::string calibration = sources.from_run + "/calibration.json";
  WorkerTimes times;
  if (std::filesystem::exists(calibration)) {
    const Cut parts = cut(net);
    const Calibration timed = calibration_of_slaves(net, parts, calibration);
    const HeadTimes& head = sources.master ? HeadTimes{} : timed.master.head;
    if (sources.gradient.empty()) take_speeds(timed, parts, head, calibration, times);
    if (sources.master) {
      const Plan plan = plan_of_replica(sources.from_run, parts);
      times.director = director_of(net, parts, plan, timed);
      times.model = bytes_of_model(parts, plan);
    }
    if (sources.transfer.empty() && !sources.mbits) take_timed_links(timed, times);
  } else if (sources.master) {
    fail("{}: --master needs a run with slaves, which has a calibration.json", sources.from_run);
  } else if (sources.gradient.empty()) {
    take_alone(net, sources.from_run, times);
  }
  if (times.director) {
    take_trunk(net, *times.director, times);
  } else {
    take_weights(net, sources.wire, times);
  }
  if (sources.transfer.empty() && times.links.empty()) take_links(net, sources.mbits.value_or(kUsualMbits), times);
  return times;
}

}  // namespace

estimate::Workers WorkerTimes::workers(int count) const {
  estimate::Workers all{
      .gradient = {}, .links = {}, .server = server, .bytes = bytes, .tensors = tensors, .director = director};
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    all.gradient.push_back(gradient[i % gradient.size()]);
    all.links.push_back(links[i % links.size()]);
  }
  return all;
}

WorkerTimes worker_times(const TimeSources& sources) {
  WorkerTimes times;
  if (!sources.net.empty()) times = from_net(sources);
  if (!sources.from_run.empty()) times = from_run(sources);
  if (!sources.gradient.empty()) times.gradient = sources.gradient;
  if (!sources.transfer.empty()) {
    times.links.clear();
    for (const double seconds : sources.transfer) times.links.push_back(link_of(times.bytes / seconds));
    times.server = *std::ranges::max_element(times.links, {}, &NodeLink::out);
  }
  return times;
}

}  // namespace convoy
