// What a seed says: the net, the options of the run, the slaves, and what befalls them when.
#pragma once

#include <string>
#include <vector>

#include "master/commands/options.hpp"
#include "tests/simulation/timed_device.hpp"

namespace convoy::simulation {

enum class Fault : std::uint8_t {
  kill,         ///< a slave's program dies, in the middle of what it sends
  vanish,       ///< a slave's machine is switched off
  leave,        ///< somebody presses Ctrl-C at a slave
  suspend,      ///< a slave's program stands still
  slow,         ///< a slave computes and sends slowly
  jump,         ///< a slave's clock jumps
  part,         ///< nothing passes between a slave and the master
  part_slaves,  ///< nothing passes between two slaves
  cut_control,  ///< a connection breaks
  cut_data,
  cut_peer,
  cache,        ///< a slave's disk fails
  kill_master,  ///< the master dies and is started again
  slow_master,
  jump_master,
  suspend_master,
  disk  ///< the master's disk is full for a while
};

struct Event {
  Time at{};
  Fault fault = Fault::kill;
  int slave = 0;
  int other = 0;        ///< another slave
  Time time{};          ///< how long it lasts, or until what died is started again
  double factor = 1.0;  ///< of slowness
  int sends = 0;        ///< after which a program dies
  int damage = 0;       ///< of the master's files, when it died
};

struct SlaveSetting {
  std::string name;
  Pace pace;
  bool cache = false;    ///< keeps states on disk
  bool hostile = false;  ///< breaks the protocol
};

struct Scenario {
  std::uint64_t seed = 0;
  std::string net;  ///< text of the net file
  ClusterOptions options;
  double snapshot_seconds = 0.0;
  double checkpoint_seconds = 1e9;
  Pace master_pace;
  Time longest_delay{};  ///< of a message
  std::vector<SlaveSetting> slaves;
  std::vector<Event> events;
  Time over{};              ///< no fault begins after it
  bool measured = false;    ///< the master times the slaves and chooses the plan
  bool long_waits = false;  ///< something befalls the run that only the limit of a step ends
};

/// Draws the scenario of a seed.
Scenario scenario_of(std::uint64_t seed);

/// For people.
std::string describe(const Scenario& scenario);

}  // namespace convoy::simulation
