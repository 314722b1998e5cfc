// Plans in rows of small trunks, for tests of task graphs.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "nets/graph/net.hpp"
#include "plan/plan.hpp"
#include "tests/plan/pooled_stage.hpp"
#include "tests/support/graph_net.hpp"
#include "tests/support/tiles.hpp"

namespace convoy {

inline constexpr int kTiledBatch = 24;

inline std::vector<Stage> chain() {
  return {pooled_stage("conv1", 3, 16, 8), pooled_stage("conv2", 8, 8, 12), pooled_stage("conv3", 12, 4, 10)};
}

inline std::vector<Stage> normalised_chain() {
  std::vector<Stage> trunk = chain();
  trunk[0].after.emplace_back(BatchNorm{.name = "norm1"});
  trunk[1].after.emplace_back(BatchNorm{.name = "norm2"});
  trunk[1].after.emplace_back(BatchNorm{.name = "norm3"});
  return trunk;
}

inline std::vector<Stage> branches() { return cut(parse_net(kGraphNet, "graph.yaml")).trunk; }

struct TilesCase {
  std::string name;
  Exchange exchange = Exchange::ring;
  int micro_batches = 1;
  int members = 4;
  bool own = false;
  std::vector<int> samples;  ///< of rows, for a micro-batch
  Grid grid;
  int until = 1000;  ///< stages from this one on are cut along filters alone
  bool relayed = false;
};

inline void PrintTo(const TilesCase& c, std::ostream* out) { *out << c.name; }

inline Plan plan_of(const TilesCase& c, const std::vector<Stage>& trunk) {
  const std::vector<double> speeds{1.0, 2.0, 1.0, 3.0};
  Plan plan = proportional_plan(trunk, kTiledBatch, member_names(c.members, c.own),
                                {speeds.begin(), speeds.begin() + c.members});
  set_micro_batches(plan, c.micro_batches);
  plan.exchange = c.exchange;
  plan.relayed = c.relayed;
  for (std::size_t s = 0; s < trunk.size() && static_cast<int>(s) < c.until; ++s) {
    if (!everywhere(plan.stages[s])) plan.stages[s] = in_rows(trunk[s], c.samples, c.grid);
  }
  validate(plan, trunk);
  return plan;
}

inline const Grid kSamples{{0}, {1}, {2}, {3}};
inline const Grid kSquare{{0, 1}, {2, 3}};

}  // namespace convoy
