// Simulation of data-parallel training with a parameter server: a discrete-event model of workers that compute
// gradients, servers that apply them, and transfers that share the machines' network cards.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/estimate.hpp"
#include "plan/profile.hpp"

namespace convoy::estimate {

/// What the machine that directs a training does for each batch besides holding weights, where it hands out the images
/// and computes the dense layers, as convoy-master does. Its thread does one thing at a time.
struct Director {
  double images = 0.0;        ///< bytes of a batch's images, which follow the weights to a worker
  int micro_batches = 1;      ///< a worker computes one of them while the images of the next arrive
  double maps = 0.0;          ///< bytes of the maps that the dense layers read; their gradients have as many
  double forward = 0.0;       ///< the part of a gradient's time that comes before the dense layers
  double head = 0.0;          ///< seconds of the dense layers of a batch, which its worker waits for
  double head_weights = 0.0;  ///< seconds of the gradients of their weights, while the worker goes on
  double give = 0.0;          ///< seconds in which it gets the weights ready for a worker
  double take = 0.0;          ///< seconds in which it takes a gradient out of messages
  double add = 0.0;           ///< seconds in which it adds one gradient to the sum of an iteration
  double update = 0.0;        ///< seconds in which it makes new weights of this sum, or of an asynchronous gradient
  /// Seconds in which it and a worker handle all parts of the weights, while none of them travels to this worker.
  double between = 0.0;
  /// Bytes that wait in the queue of its card while it sends. A part of the weights, and the images, begin behind them
  /// where another worker receives.
  double queue = 0.0;
  /// The sizes, in any unit, in which a central server sends the weights: a worker asks for the next part when it has
  /// the one before. Empty: all at once.
  std::vector<double> stages;
  /// For each of `stages`, how long before the end of a gradient's time its own gradient is known, as a part of this
  /// time. The gradients of the last stages are known first, and leave for a central server one after another while the
  /// worker computes the others. Empty: all leave when all are known, as they do with the semaphore.
  std::vector<double> known = {};
};

/// The machines of a training. Workers may be unequal.
struct Workers {
  std::vector<double> gradient;  ///< by worker, seconds in which it computes the gradient of one batch
  std::vector<NodeLink> links;   ///< by worker
  NodeLink server;               ///< of the machine that holds the weights, where the server is central
  double bytes = 1.0;            ///< of all weights in transit; any unit that the links have as well
  /// The size of each tensor, in any unit, by which a distributed server spreads them. Where it is empty, each worker
  /// holds an equal part of the weights.
  std::vector<double> tensors;
  double latency = 0.0;  ///< seconds between the end of a transfer and its arrival
  /// Seconds in which a server adds one gradient of all weights to its sum, or to the weights, where there is no
  /// director.
  double apply = 0.0;
  std::optional<Director> director = {};  ///< its card is that of `server`
};

/// A training and what varies in it.
struct ReplicaRun {
  Scheme scheme = Scheme::join;
  Server server = Server::central;
  int batches = 1;  ///< of all workers together; at least one for each worker
  /// Each machine sends one transfer at a time, and receives one at a time. A central server with a director sends
  /// weights to one worker at a time, all of their parts, and receives from one; images and maps do not wait.
  bool semaphore = false;
  /// The standard deviation of a gradient's time, as a part of its mean. Times are drawn from log-normal distributions.
  double jitter = 0.0;
  std::uint64_t seed = 1;  ///< of the jitter, and of the order in which servers serve workers
  /// In join, the workers whose gradients of an iteration are dropped because others came first (Chen et al.,
  /// "Revisiting distributed synchronous SGD", 2016). Their batches do not count.
  int backup = 0;
  int local_steps = 1;  ///< in join, the batches that a worker trains on by itself between two exchanges
  int skipped = 0;      ///< batches at the beginning whose seconds do not count; fewer than `batches`
};

struct ReplicaTimes {
  double seconds = 0.0;    ///< of the training, without those of the skipped batches
  double staleness = 0.0;  ///< mean number of other updates between a gradient's weights and its own update
};

/// Returns what the formulas, which know equal workers alone, are to be given for `workers`: the slowest link, and for
/// synchronous schemes the slowest worker. For the asynchronous scheme it is a worker as fast as all are on average.
Setting setting_of(const Workers& workers, const ReplicaRun& run);

/// Returns the seconds in which the fastest worker trains alone, without a server.
double seconds_alone(const Workers& workers, int batches);

/// Returns the part of all weights that each of `servers` servers holds. Each tensor in turn goes to the server with
/// the least bytes so far (Slampa, 2017), the first of several. Without tensors the parts are equal.
std::vector<double> spread(const std::vector<double>& tensors, std::size_t servers);

/// Simulates a training.
///   - In a synchronous scheme, a server sends its weights to all workers, and again when it has applied the gradients
///     of all of them. Where the workers outnumber the batches left for join's last iteration, the first workers
///     compute it.
///   - A worker whose gradient was dropped is sent the newest weights once it has sent that gradient. Distributed
///     servers drop gradients each for itself.
///   - In the asynchronous scheme, a worker that has sent its gradient receives a server's weights as soon as the
///     server has applied it. The next batch goes to whichever worker finishes first.
///   - A distributed server's part of the weights on a worker's own machine does not travel.
///   - With a director, a worker receives its images after the weights, and computes each micro-batch as it comes. Then
///     its maps travel to the director, whose thread computes the dense layers of one worker after the other, and their
///     gradients travel back. Its gradient is asked for when it is known, which takes two messages, unless it leaves in
///     parts (Director::known). The director's thread also does the work of a central server, which adds an iteration's
///     gradients when all of them are there. Workers of sync-split have a part of a batch's images and maps, and local
///     steps as many times more.
///   - Cards are shared as in plan/links.hpp. With the semaphore, transfers wait in the order in which they were asked
///     for; one whose two machines are free goes ahead of those whose machines are not.
/// Long trainings are simulated in part, and the rest takes as long as the second half of this part did.
ReplicaTimes simulate(const Workers& workers, const ReplicaRun& run);

}  // namespace convoy::estimate
