// What the slaves of a run tell of their energy, those that have left included.
#pragma once

#include <string>
#include <vector>

#include "train/trunk.hpp"

namespace convoy {

class EnergyBook {
 public:
  /// Notes the energy that a slave has told last. `id` names its connections, so that a slave that comes back counts on
  /// from where it was; `name` is for people.
  void take(const std::string& id, const std::string& name, const MachineEnergy& energy);
  /// Returns the energy of each slave that has taken part in a step, by name. Texts are safe to print.
  std::vector<MemberEnergy> members() const;

 private:
  struct Entry {
    std::string id;
    MemberEnergy told;
  };
  std::vector<Entry> entries_;
};

}  // namespace convoy
