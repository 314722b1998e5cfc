// What happens in the simulation of data-parallel training, and the states of its machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/random.hpp"
#include "plan/replica_simulation.hpp"

namespace convoy::estimate {

/// Something that happens to a worker, or between it and a server.
struct Event {
  enum class Kind {
    offered,      ///< the director has the weights ready
    part_wanted,  ///< the worker has asked for the next part of the weights
    out_of_queue,
    weights_arrive,
    begins,  ///< the director knows that the worker has the weights
    images_arrive,
    forwarded,
    maps_arrive,
    head_computed,
    map_gradients_arrive,
    part_known,  ///< the worker has the gradient of one more stage
    part_arrives,
    computed,
    gradient_known,  ///< the director knows that the worker has it
    gradient_wanted,
    gradient_arrives,
    applied,
    updated
  };
  Kind kind;
  int worker;
  int server = -1;  ///< its index among the servers
};
/// An event and when it happens.
struct Timer {
  double time;
  std::uint64_t number;  ///< timers of the same moment go off in the order of their numbers
  Event event;
  bool operator>(const Timer& other) const { return time != other.time ? time > other.time : number > other.number; }
};
/// What a node sends to another, and the event of its arrival.
struct Transfer {
  int from;
  int to;
  double bytes;
  Event then;
};
/// With a director and the semaphore, the transfers of all weights in one direction, of which one goes on at a time.
struct Turns {
  bool taken = false;
  std::deque<Event> waiting;
};
/// The state of a server.
struct ServerState {
  int node;
  double part;               ///< of all weights
  int iteration = 0;         ///< whose gradients the server waits for, in a synchronous scheme
  int ended = 0;             ///< iterations by whose gradients it has updated the weights
  double free = 0.0;         ///< when it has applied all gradients that have arrived
  std::vector<int> sent;     ///< by worker, the iteration whose weights it was sent last
  std::vector<int> waiting;  ///< workers that will be sent the weights of the next iteration
};
/// The state of a worker.
struct State {
  std::size_t missing = 0;      ///< servers whose weights have not arrived
  std::size_t part = 0;         ///< of the weights of a server with a director, the part that arrives
  int images = 0;               ///< micro-batches that have arrived
  double free = 0.0;            ///< when it has computed these forward
  double seconds = 0.0;         ///< of the gradient that it computes
  std::size_t parts_known = 0;  ///< stages whose gradients it has computed, where they leave in parts
  std::size_t parts_sent = 0;
  bool sends_part = false;
  std::size_t applied = 0;  ///< parts of the last gradient that servers have applied
  bool another = false;     ///< whether it has a next batch, in the asynchronous scheme
  int fetched = 0;          ///< updates before the weights that it was sent last
  int computes_on = 0;      ///< updates before the weights that it computes on
};

/// Returns the number of batches in an iteration of join.
int batches_of_iteration(const ReplicaRun& run, int workers);
/// Returns the number of iterations of a synchronous scheme, or of gradients of the asynchronous scheme.
int units_of(const ReplicaRun& run, int workers);
/// Returns how many gradients end an iteration, counted from 0.
int gradients_of(const ReplicaRun& run, int workers, int iteration);
/// Returns the number of micro-batches that a worker computes between two exchanges. The images of the next local step
/// travel while it computes.
int micro_batches_of(const Director& director, const ReplicaRun& run);
/// Bounds the time that a simulation takes. Of asynchronous gradients, half are as many of each worker, because what
/// happens repeats from round to round.
int most_units(const Workers& workers, const ReplicaRun& run, std::size_t servers);
/// Returns when a unit, counted from 1, has ended, where `ends` has the units that were simulated. Units beyond these
/// go on at the pace of their second half.
double end_of_unit(const std::vector<double>& ends, int unit);

/// Returns the cards of the workers and, last, of the central server or the director; without either, the last one is
/// idle.
std::vector<NodeLink> cards_of(const Workers& workers, const ReplicaRun& run);

/// Returns the seconds of `steps` gradients that take `mean` seconds on average. See ReplicaRun::jitter.
double seconds_with_jitter(double mean, int steps, double jitter, Random& random);

}  // namespace convoy::estimate
