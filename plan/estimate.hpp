// Formulas that estimate, before a run, how long data-parallel training with a parameter server takes (Slampa,
// "Estimating the speedup of parallel training of neural networks", Brno University of Technology, 2017).
#pragma once

#include <array>
#include <string>

namespace convoy::estimate {

/// When the gradients of the workers meet the weights.
enum class Scheme {
  join,   ///< each worker computes the gradient of a whole batch; the server applies the mean of all gradients
  split,  ///< the workers share each batch equally; the server applies the mean of all gradients
  async   ///< the server applies each gradient as it arrives, and its worker goes on with the newest weights
};
inline constexpr std::array kSchemes{Scheme::join, Scheme::split, Scheme::async};

/// Who holds the weights.
enum class Server {
  central,     ///< a machine that computes no gradients holds all weights
  distributed  ///< each worker also holds some of the tensors
};
inline constexpr std::array kServers{Server::central, Server::distributed};

/// Names as on the command line: "sync-join", "sync-split", "async"; "central", "distributed".
std::string to_string(Scheme scheme);
std::string to_string(Server server);
/// The functions from text throw Error listing the known names.
Scheme scheme_from(const std::string& text);
Server server_from(const std::string& text);

/// What the formulas need to know. All workers are equal.
struct Setting {
  Scheme scheme = Scheme::join;
  Server server = Server::central;
  double gradient = 0.0;  ///< seconds in which a worker computes the gradient of one batch
  double transfer = 0.0;  ///< seconds in which a link carries all weights once, in one direction
  int workers = 1;
  int batches = 1;      ///< batches of the training, of all workers together
  int local_steps = 1;  ///< in join, batches that a worker trains on by itself between two exchanges
};

/// Seconds of a training.
struct Bounds {
  double best = 0.0;   ///< workers take turns with the server's link
  double worst = 0.0;  ///< all workers use the server's link at the same time
  double mean() const { return 0.5 * (best + worst); }
};

/// Returns the seconds of a training by the formulas. With N workers, D batches, c seconds for a transfer and g for a
/// gradient, an iteration of a synchronous scheme takes
///   central server      best (N + 1) c + g, worst 2 N c + g
///   distributed server  2 c (N - 1) / N + g
/// A training with join has D / N iterations. One with split has D, and g becomes g / N. An asynchronous training takes
///   central server      best max((D + 1) c + g, (N - 1) c + (D / N) (2 c + g)), worst (D / N) (2 N c + g)
///   distributed server  (D / N) (2 c (N - 1) / N + g)
/// With L local steps, which the source does not have, an iteration of join takes L g instead of g, and there are D /
/// (N L) of them. D / N is not rounded. For a distributed server, best and worst are equal.
Bounds seconds_by_formula(const Setting& setting);

}  // namespace convoy::estimate
