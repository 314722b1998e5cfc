#include "master/cluster/gather.hpp"

#include <algorithm>

#include "master/cluster/join_line.hpp"
#include "master/cluster/key_file.hpp"
#include "master/cluster/key_ring.hpp"
#include "master/cluster/plan_options.hpp"

namespace convoy {
namespace {

std::string slaves_of(std::size_t count) { return count == 1 ? "1 slave" : fmt::format("{} slaves", count); }

/// The slaves in `now` that are not in `before`, as a text for people.
std::string newcomers(const std::vector<SlaveInfo>& before, const std::vector<SlaveInfo>& now) {
  std::string names;
  for (const SlaveInfo& slave : now) {
    if (std::ranges::find(before, slave.id, &SlaveInfo::id) != before.end()) continue;
    names += fmt::format("{}{} ({})", names.empty() ? ": " : ", ", slave.name, slave.device);
  }
  return names;
}

}  // namespace

std::string how_to_join(const ClusterOptions& options, const std::string& endpoint) {
  if (options.insecure) return insecure_join_line(endpoint);
  const KeyFile file = read_or_make_keys(options.keys);
  if (file.shared) return join_line(endpoint, file.keys.join_key());
  return "the line that `convoy-master key add NAME` prints, because the key for all slaves is turned off";
}

std::shared_ptr<KeyRing> open_keys(const ClusterOptions& options, const Observers& observers) {
  if (options.insecure) return nullptr;
  const bool made = !has_key_file(options.keys);
  auto keys = std::make_shared<KeyRing>(options.keys);
  if (made) notice(observers, "made new keys for this master" + (options.keys.empty() ? "" : ": " + options.keys));
  return keys;
}

bool gather_slaves(const ClusterOptions& options, Crew& crew, int count, const Observers& observers,
                   const std::atomic<bool>& stop) {
  std::vector<SlaveInfo> before = crew.present();
  const auto wanted = static_cast<std::size_t>(count);
  if (before.size() < wanted) {
    notice(observers, fmt::format("waiting for {}{}; start each of them with:", slaves_of(wanted - before.size()),
                                  before.empty() ? "" : " more"));
    notice(observers, "  " + how_to_join(options, crew.lobby().endpoint()));
  }
  const auto changed = [&] {
    std::vector<SlaveInfo> here = crew.present();
    const std::string names = newcomers(before, here);
    if (here.size() != before.size() || !names.empty()) {
      notice(observers, fmt::format("{} of {}{}", here.size(), slaves_of(wanted), names));
    }
    before = std::move(here);
  };
  // Fixed shares are those of so many slaves.
  return crew.gather(count, stop, changed, fixes_shares(options) ? wanted : Crew::kMostMembers);
}

std::unique_ptr<Lobby> open_lobby(const ClusterOptions& options, const std::string& run, bool paced,
                                  const Observers& observers, wire::Network& network, std::shared_ptr<KeyRing> keys) {
  if (!keys) keys = open_keys(options, observers);
  auto lobby = std::make_unique<Lobby>(
      options.listen, run, keys, [&observers](const std::string& text) { notice(observers, text); }, network);
  lobby->guests().expect_paced(paced);
  if (options.insecure && options.slaves > 0) {
    notice(observers, "links are neither encrypted nor authenticated (--insecure)");
  }
  return lobby;
}

}  // namespace convoy
