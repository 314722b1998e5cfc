#include "bench/director.hpp"

#include <algorithm>
#include <numeric>

#include "bench/statistics.hpp"
#include "core/files.hpp"
#include "core/stopwatch.hpp"
#include "plan/task_graph.hpp"
#include "train/model_arithmetic.hpp"
#include "train/parameter_server.hpp"
#include "wire/contents.hpp"

namespace convoy {
namespace {

/// Returns the median of the seconds of a few calls of work(), in processor time, since other programs may use this
/// machine.
template <class Work>
double median_seconds(Work work) {
  constexpr int kRounds = 3;
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const double before = thread_seconds();
    work();
    seconds.push_back(thread_seconds() - before);
  }
  return quartiles(seconds).median;
}

/// Returns the bytes of a stage's weights, running averages and moments, where trained parameters and their moments
/// travel in `type`.
double bytes_in(NumberType type, const Stage& stage) {
  std::size_t bytes = 0;
  for (const ParameterSpec& spec : parameters_of(stage, stage.conv.filters)) {
    const std::size_t tensors = 1 + (spec.trained ? static_cast<std::size_t>(stage.moments) : 0);
    bytes += tensors * bytes_of(spec.trained ? type : NumberType::fp32, spec.shape.size());
  }
  return static_cast<double>(bytes);
}

ModelState initial_model(const Cut& parts) { return {initial_trunk(parts, 1), initial_heads(parts, 1)}; }

/// Takes the parts of a gradient's time from the times of a member. A node computes the gradients of the weights last,
/// from the last stage to the first.
void time_passes(const Cut& parts, const MemberProfile& member, estimate::Director& director) {
  double whole = 0.0;
  double filters = 0.0;
  for (std::size_t s = 0; s < parts.trunk.size(); ++s) {
    const Timing passes = predict_passes(member, s, parts.trunk[s].conv.filters);
    director.forward += passes.forward;
    whole += passes.seconds();
    if (has_parameters(parts.trunk[s])) director.known.push_back(filters);
    filters += passes.backward_filters;
  }
  director.forward /= whole;
  for (double& before : director.known) before /= whole;
}

/// Times sums and updates of the server.
void time_server(const Net& net, const Cut& parts, estimate::Director& director) {
  ParameterServer server(parts);
  server.load(initial_model(parts));
  const ModelState gradients = *server.weights();
  const auto mean = [&](std::size_t count) {
    std::vector<std::vector<ModelState>> all;
    for (int round = 0; round < 3; ++round) all.emplace_back(count, gradients);
    return median_seconds([&, round = 0]() mutable { mean_of(std::move(all[round++])); });
  };
  const double one = mean(1);
  director.add = std::max(0.0, mean(2) - one);
  director.update = one - director.add + median_seconds([&, step = 0L]() mutable {
                      ++step;
                      server.update(update_step(net.training, 1e-6, step, 0.0), gradients, step);
                      server.weights();
                    });
  director.update = std::max(0.0, director.update);
}

/// Times the copies between a replica's messages and the server.
void time_copies(const Cut& bare, estimate::Director& director) {
  const ModelState model = initial_model(bare);
  director.give = median_seconds([&] {
    std::vector<ShardState> slices;
    for (std::size_t s = 0; s < bare.trunk.size(); ++s) {
      slices.push_back(slice(model.trunk[s], {0, bare.trunk[s].conv.filters}));
    }
    const std::vector<DenseState<float>> loaded = model.head;
  });
  director.take = median_seconds([&] {
    ModelState gradients{{}, model.head};
    for (std::size_t s = 0; s < bare.trunk.size(); ++s) {
      const FilterRange all{0, bare.trunk[s].conv.filters};
      gradients.trunk.push_back(zero_state(bare.trunk[s], all.count));
      paste(model.trunk[s], all, gradients.trunk.back());
    }
  });
  director.between = median_seconds([&] {
    for (std::size_t s = 0; s < bare.trunk.size(); ++s) {
      const FilterRange all{0, bare.trunk[s].conv.filters};
      const std::vector<wire::Content> contents = wire::contents_of(model.trunk[s], all);  // when the slave has a part
      ShardState loaded = slice(model.trunk[s], all);
      paste(loaded, all, loaded);
      const ShardState next = slice(loaded, all);  // before the master sends the next one
    }
  });
}

}  // namespace

Plan plan_of_replica(const std::string& folder, const Cut& parts) {
  const std::string file = folder + "/plan.json";
  Plan plan = plan_from_json(read_text(file), file);
  validate(plan, parts.trunk);
  if (plan.members.size() != 1) {
    fail("{}: its replica has {} members; give a run whose replicas are one slave each, such as one with --sync join",
         file, plan.members.size());
  }
  return plan;
}

ModelBytes bytes_of_model(const Cut& parts, const Plan& plan) {
  const NumberType type = plan.wire == NumberType::bf16 ? NumberType::bf16 : NumberType::fp32;
  ModelBytes bytes;
  for (Stage stage : parts.trunk) {
    const double whole = bytes_in(type, stage);
    stage.moments = 0;
    bytes.values += bytes_in(type, stage);
    bytes.moments += whole - bytes_in(type, stage);
  }
  return bytes;
}

estimate::Director director_of(const Net& net, const Cut& parts, const Plan& plan, const Calibration& timed) {
  estimate::Director director{.micro_batches = plan.micro_batches,
                              .head = timed.master.head.pass(timed.batch),
                              .head_weights = timed.master.head.update,
                              .stages = {}};
  const TaskGraph graph = make_task_graph(plan, parts.trunk);
  for (const Task& task : graph.tasks) {
    const double bytes = bytes_of(task, plan, parts.trunk);
    if (task.node != graph.master) {
      director.maps += bytes;
    } else if (task.stage == Source::kImages) {
      director.images += bytes;
    }
  }
  time_passes(parts, timed.members.front(), director);
  const Cut bare = without_moments(parts);
  // Weights and gradients travel in the type of the maps, but never in 8 bits.
  const NumberType type = plan.wire == NumberType::int8 ? NumberType::fp32 : plan.wire;
  for (const Stage& stage : bare.trunk) {
    if (has_parameters(stage)) director.stages.push_back(bytes_in(type, stage));
  }
  time_server(net, parts, director);
  time_copies(bare, director);
  return director;
}

}  // namespace convoy
