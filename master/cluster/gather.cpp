#include "master/cluster/gather.hpp"

#include <algorithm>

#include "master/cluster/master_keys.hpp"
#include "wire/interfaces.hpp"

namespace convoy {
namespace {

std::string slaves_of(std::size_t count) { return count == 1 ? "1 slave" : fmt::format("{} slaves", count); }

/// The command that starts a slave, with its key or --insecure.
std::string join_command(const ClusterOptions& options, const std::string& endpoint) {
  const std::string key = options.insecure ? "--insecure" : "--key " + to_text(master_keys(options.keys).join_key());
  return fmt::format("convoy-slave {} {}", wire::endpoint_for_slaves(endpoint), key);
}

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

bool gather_slaves(const ClusterOptions& options, Roster& roster, int count, const Observers& observers,
                   const std::atomic<bool>& stop) {
  std::vector<SlaveInfo> before = roster.present();
  const auto wanted = static_cast<std::size_t>(count);
  if (before.size() < wanted) {
    notice(observers, fmt::format("waiting for {}{}; start each of them with:", slaves_of(wanted - before.size()),
                                  before.empty() ? "" : " more"));
    notice(observers, "  " + join_command(options, roster.endpoint()));
  }
  return roster.gather(count, stop, [&] {
    std::vector<SlaveInfo> here = roster.present();
    const std::string names = newcomers(before, here);
    if (here.size() != before.size() || !names.empty()) {
      notice(observers, fmt::format("{} of {}{}", here.size(), slaves_of(wanted), names));
    }
    before = std::move(here);
  });
}

std::unique_ptr<Roster> gather_slaves(const ClusterOptions& options, const std::string& run, const Observers& observers,
                                      const std::atomic<bool>& stop, wire::Network& network) {
  std::optional<wire::MasterKeys> keys;
  if (!options.insecure) {
    const bool made = !has_master_keys(options.keys);
    keys = master_keys(options.keys);
    if (made) notice(observers, "made new keys for this master" + (options.keys.empty() ? "" : ": " + options.keys));
  }
  auto roster = std::make_unique<Roster>(
      options.listen, run, keys, [&observers](const std::string& text) { notice(observers, text); }, network);
  if (options.insecure && options.slaves > 0) {
    notice(observers, "links are neither encrypted nor authenticated (--insecure)");
  }
  if (!gather_slaves(options, *roster, options.slaves, observers, stop)) return nullptr;
  return roster;
}

}  // namespace convoy
