// Slaves that break the protocol. A hostile slave is the shipped program behind a link that makes something else of what it
// says at some moments.
#pragma once

#include <memory>
#include <string>

#include "core/random.hpp"
#include "tests/simulation/links.hpp"

namespace convoy::simulation {

class Misdeeds final : public Distortion {
 public:
  Misdeeds(Random random, Log& log) : random_(random), log_(log), next_(random_.below(60)) {}

  std::vector<Packet> distort(wire::Channel channel, const wire::Envelope& envelope) override;

 private:
  std::vector<Packet> misbehave(wire::Channel channel, const wire::Envelope& envelope);
  Packet garbage();
  wire::Envelope changed(wire::Envelope envelope);
  wire::Hello changed(wire::Hello hello);
  wire::Message uncalled();

  Random random_;
  Log& log_;
  std::uint32_t next_;  ///< messages until the next misdeed
};

}  // namespace convoy::simulation
