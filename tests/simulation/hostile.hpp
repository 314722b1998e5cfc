// Slaves that break the protocol. A hostile slave is the shipped program behind a link that makes something else of
// what it says at some moments. It sends no false results in the place of right ones: nobody could tell them apart.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "core/random.hpp"
#include "tests/simulation/links.hpp"

namespace convoy::simulation {

class Misdeeds final : public Distortion {
 public:
  /// `clips`: whether the run clips gradients, and so believes each slave's sum of squares.
  Misdeeds(Random random, Log& log, bool clips) : random_(random), log_(log), clips_(clips), next_(random_.below(60)) {}

  std::vector<Packet> distort(wire::Channel channel, const wire::Envelope& envelope) override;

 private:
  void remember(wire::Channel channel, const wire::Envelope& envelope);
  bool tempted(const wire::Envelope& envelope);
  std::vector<Packet> misbehave(wire::Channel channel, const wire::Envelope& envelope);
  std::vector<Packet> stalling(const wire::Envelope& envelope);
  Packet garbage();
  wire::Envelope changed(wire::Envelope envelope);
  wire::Hello changed(wire::Hello hello);
  wire::Message uncalled();

  Random random_;
  Log& log_;
  bool clips_;
  bool stalls_ = false;
  std::uint32_t next_;  ///< messages until the next misdeed
  std::deque<std::pair<wire::Channel, wire::Envelope>> said_;
};

}  // namespace convoy::simulation
