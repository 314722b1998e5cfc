// Replicas that train by themselves, in one process; the first one may lose a member.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/train/replica_nets.hpp"
#include "train/local_steps_learner.hpp"

namespace convoy {

/// A trunk that loses a member in one of its training passes.
class FailingTrunk : public LocalTrunk {
 public:
  FailingTrunk(const Cut& cut, Device& device, long fails_in)
      : LocalTrunk(cut.trunk, input_shape(cut.trunk[0], kBatch), device), fails_in_(fails_in) {}
  void begin(const Images& images, const Pass& pass) override {
    if (pass.training && pass.step == fails_in_) throw PeerLost("doomed", "slave doomed is gone");
    LocalTrunk::begin(images, pass);
  }
  void begin_snapshot(bool moments) override {
    if (fails_in_ < 0) throw PeerLost("doomed", "slave doomed is gone");
    LocalTrunk::begin_snapshot(moments);
  }
  void lose_the_next_snapshot() { fails_in_ = -1; }

 private:
  long fails_in_;
};

/// A replica that goes on with another trunk when it loses a member.
class Recovering : public Replica {
 public:
  Recovering(Trunk& trunk, Trunk& spare, const Cut& cut) : Replica(trunk, cut, kBatch, 1), spare_(spare) {}
  bool whole() override { return whole_; }
  void set_whole(bool whole) { whole_ = whole; }
  int losses() const { return losses_; }

 private:
  void recover(const PeerLost&) override {
    ++losses_;
    use(spare_);
  }
  Trunk& spare_;
  bool whole_ = true;
  int losses_ = 0;
};

/// Replicas on one device. The first one's trunk may fail: in a step, or with -1 whenever its model is collected.
struct LocalSteps {
  LocalSteps(const Cut& cut, int replicas, const ExchangePeriod& period, long first_fails_in = 0) {
    std::vector<std::unique_ptr<Replica>> made;
    for (int i = 0; i < replicas; ++i) {
      trunks.push_back(std::make_unique<FailingTrunk>(cut, *device, i == 0 ? first_fails_in : 0));
      spares.push_back(std::make_unique<FailingTrunk>(cut, *device, 0));
      auto replica = std::make_unique<Recovering>(*trunks.back(), *spares.back(), cut);
      all.push_back(replica.get());
      made.push_back(std::move(replica));
    }
    learner.emplace(std::move(made), cut, kBatch, replicas, period, 1);
    learner->load(initial(cut));
  }
  std::unique_ptr<Device> device = make_device("eigen", {.threads = 1});
  std::vector<std::unique_ptr<FailingTrunk>> trunks;
  std::vector<std::unique_ptr<FailingTrunk>> spares;
  std::vector<Recovering*> all;
  std::optional<LocalStepsLearner> learner;
};

}  // namespace convoy
