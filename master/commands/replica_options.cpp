#include "master/commands/replica_options.hpp"

#include <cstdint>
#include <string>

#include "cli/checks.hpp"
#include "master/commands/options.hpp"

namespace convoy {

void define_replicas(CLI::App& command, TrainOptions& options) {
  command
      .add_option_function<std::string>(
          "--sync",
          [&options](const std::string& word) {
            options.sync = word == "join" ? Sync::join : word == "none" ? Sync::none : Sync::split;
          },
          "split: all members share each batch; join: in each step every replica of the net computes a batch, and the "
          "weights are updated by the mean of the gradients, as on one machine with a batch as large as all of these "
          "together; none: the weights are updated by the gradients of each replica as they arrive, which other "
          "updates may have made stale")
      ->check(one_of({"split", "join", "none"}))
      ->default_str("split");
  command
      .add_option_function<std::string>(
          "--server",
          [&options](const std::string& word) {
            options.server = word == "distributed" ? Server::distributed : Server::central;
          },
          "with --sync join or none: who updates the weights: the master (central) or, with join alone, the members, "
          "each a part of the weights (distributed)")
      ->check(one_of({"central", "distributed"}));
  command
      .add_option("--replicas", options.replicas,
                  "with --sync join or none: number of replicas; the slaves are grouped so that all replicas are about "
                  "equally fast (default: one for each slave)")
      ->check(whole_number(1, 256));
  command
      .add_option("--backup", options.backups,
                  "with --sync join: number of batches of a step whose gradients come last and are dropped, so that "
                  "the step need not wait for slow replicas")
      ->check(whole_number(0, 255));
  command
      .add_option(
          "--sync-every", options.sync_every,
          "with --sync join: number of steps in which replicas train by themselves before they average their weights; "
          "they average the optimizer's moments about every 32 steps")
      ->check(whole_number(1, 1000000));
  command
      .add_option("--sync-up-to", options.sync_up_to,
                  "with --sync-every: as the learning rate falls, the number of steps grows as the inverse square of "
                  "the rate, up to this number")
      ->check(whole_number(1, 1000000));
  command
      .add_option("--outer-momentum", options.outer.momentum,
                  "with --sync-every: Nesterov momentum of the step from the last weights to the average, such as 0.9")
      ->check(number(0.0, 0.999))
      ->default_str("0");
  command
      .add_option("--outer-rate", options.outer.rate,
                  "with --sync-every: factor of the step from the last weights to the average, such as 0.7 with "
                  "--outer-momentum 0.9")
      ->check(number(0.001, 10.0))
      ->default_str("1");
  command
      .add_option("--staleness", options.staleness,
                  "with --sync none: highest number of updates between the time when a replica reads the weights and "
                  "the update by its "
                  "gradients (default: no bound)")
      ->check(whole_number(0, 1000000));
  command.add_flag_function(
      "--semaphore,!--no-semaphore", [&options](std::int64_t given) { options.semaphore = given > 0; },
      "with --sync join or none: the master sends weights to one replica at a time, and takes gradients from one at a "
      "time (default: with none alone)");
  command.add_flag("--scale-rate", options.scale_rate,
                   "with --sync join: multiply the learning rate by the number of batches whose gradients count");
}

}  // namespace convoy
