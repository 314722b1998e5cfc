#include "master/commands/member_pass.hpp"

#include <algorithm>
#include <utility>

#include "master/cluster/cluster_learner.hpp"
#include "master/report/predictions.hpp"

namespace convoy {

MemberPass::MemberPass(const EnsembleMember& member, PassImages images)
    : member_(member),
      images_(std::move(images)),
      outputs_(Shape{static_cast<int>(images_.count), member.net.classes}),
      losses_(static_cast<std::size_t>(batches())),
      wrong_(static_cast<std::size_t>(images_.count)) {}

int MemberPass::batches() const {
  const long batch = member_.net.training.batch;
  return static_cast<int>((images_.count + batch - 1) / batch);
}

std::string MemberPass::name_of(long image) const {
  return images_.what.empty() ? images_.files[image] : fmt::format("{} {}", images_.what, image);
}

void MemberPass::compute(Part& part, Learner& learner, const std::atomic<bool>& stop,
                         const std::function<void()>& after) {
  const FillBatch fill = images_.open();
  PassBatch batch;
  for (; part.next < part.end && !stop; ++part.next) {
    fill(part.next, batch);
    const Tensor& found = learner.outputs(batch.images);
    if (!batch.labels.empty()) {
      losses_[part.next] = learner.test_loss({batch.labels}, batch.count);
    }
    long image = static_cast<long>(part.next) * member_.net.training.batch;
    for (int n = 0; n < batch.count; ++n, ++image) {
      if (!batch.wrong.empty()) wrong_[image] = batch.wrong[n];
      if (!wrong(image).empty()) continue;
      const auto row = found.sample(n);
      expect_finite_outputs(name_of(image), row, member_.name + "'s");
      std::ranges::copy(row, outputs_.sample(static_cast<int>(image)).begin());
    }
    if (after) after();
  }
}

Evaluation MemberPass::evaluation() const {
  EvaluationSum sum;
  long left = images_.count;
  try {
    for (const BatchLoss& each : losses_) {
      sum.add(each, static_cast<int>(std::min<long>(left, member_.net.training.batch)));
      left -= member_.net.training.batch;
    }
  } catch (const Diverged& diverged) {
    fail("{}: {}; check that the weights belong to this net", member_.name, diverged.what());
  }
  return sum.result();
}

bool run_pass(MemberPass& pass, const ClusterOptions& options, const NetOptions& net_options,
              const Observers& observers, const std::atomic<bool>& stop, const std::string& end) {
  const EnsembleMember& member = pass.member();
  const auto cluster = Cluster::assemble(options, net_options, member.net, member.cut, observers, stop);
  if (!cluster) return false;
  ClusterLearner learner(*cluster, member.cut, member.net.training.batch);
  learner.load({member.weights});
  MemberPass::Part all{.next = 0, .end = pass.batches()};
  pass.compute(all, learner, stop);
  const bool whole = all.next == all.end;
  cluster->dismiss(whole ? end : "the master was interrupted");
  return whole;
}

}  // namespace convoy
