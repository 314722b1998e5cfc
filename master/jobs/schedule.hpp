// Which job is trained on which machine: longest first. A pure function of predicted times.
#pragma once

#include <cstddef>
#include <vector>

namespace convoy {

/// A job on a machine, from one second to another, counted from now.
struct PlacedJob {
  std::size_t job = 0;
  std::size_t machine = 0;
  double from = 0.0;
  double to = 0.0;
};

/// Places jobs on machines that do one job at a time: the longest job first, each on the machine that ends it first (longest
/// processing time, Graham, SIAM J. Appl. Math. 1969; for machines of different speeds Gonzalez, Ibarra and Sahni, SIAM J.
/// Comput. 1977). `seconds[job][machine]` is infinite where a machine cannot take a job; the length of a job is its time on
/// its fastest machine. `busy[machine]` is the time until a machine is free, infinite for one that is not there. Jobs that no
/// machine can take are left out. The placed jobs of a machine follow one another in the result, the first of them first.
/// Equal times go to the job and to the machine with the smaller number.
std::vector<PlacedJob> longest_first(const std::vector<std::vector<double>>& seconds, std::vector<double> busy);

/// The time at which the last job ends; 0 without jobs.
double makespan(const std::vector<PlacedJob>& placed);

}  // namespace convoy
