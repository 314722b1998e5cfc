// Which job is trained on which machine: longest first. A pure function of predicted times.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace convoy {

/// A job on a machine or a group of machines, from one second to another, counted from now.
struct PlacedJob {
  std::size_t job = 0;
  std::size_t machine = 0;
  double from = 0.0;
  double to = 0.0;
  std::vector<std::size_t> others = {};  ///< the other machines of the group
};

/// What the machines are that jobs are placed on.
struct Placing {
  std::vector<double> busy;              ///< seconds until each machine is free; infinite for one that is not there
  std::vector<bool> joins = {};          ///< whether each machine can be one of a group; empty if none can
  std::vector<std::size_t> groups = {};  ///< number of machines that each job wants; empty if each wants one
  /// By the number of machines of a group, the factor by which it is slower than the sum of their speeds; 1 for numbers
  /// that are not here.
  std::map<std::size_t, double> slowdowns = {};
};

/// Places jobs on machines that do one job at a time: the longest job first, each on the machine that ends it first
/// (longest processing time, Graham, SIAM J. Appl. Math. 1969; for machines of different speeds Gonzalez, Ibarra and
/// Sahni, SIAM J. Comput. 1977). `seconds[job][machine]` is infinite where a machine cannot take a job; the length of a
/// job is its time on its fastest machine. Jobs that no machine can take are left out. Equal times go to the job and to
/// the machine with the smaller number. A job that wants a group gets as many machines that can join as it wants, or
/// all of them if there are fewer, and waits until all of its machines are free. The time of a group is that of
/// machines whose speeds add up, times its slowdown. Of machines that are free at the same time, the group has the
/// fastest. A machine that waits for others of its group does shorter jobs meanwhile that end before the group begins
/// (backfilling: Lifka, The ANL/IBM SP Scheduling System, 1995).
std::vector<PlacedJob> place_longest_first(const std::vector<std::vector<double>>& seconds, Placing placing);
/// The same without groups; see Placing::busy.
std::vector<PlacedJob> longest_first(const std::vector<std::vector<double>>& seconds, std::vector<double> busy);

/// The time at which the last job ends; 0 without jobs.
double makespan(const std::vector<PlacedJob>& placed);

}  // namespace convoy
