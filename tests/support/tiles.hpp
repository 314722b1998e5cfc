// Plans with rows for tests.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/shard_state.hpp"
#include "plan/plan.hpp"

namespace convoy {

/// Members by row: rows of a stage with the members that share its filters.
using Grid = std::vector<std::vector<int>>;

/// Returns the plan of a stage in rows of `samples` samples. The filters of row r are shared equally by the members
/// grid[r], and owned by the members of all rows: those of row r own every grid.size()-th part of their shards.
inline StagePlan in_rows(const Stage& stage, const std::vector<int>& samples, const Grid& grid) {
  StagePlan plan;
  int first = 0;
  const int all = stage.conv.filters;
  for (std::size_t r = 0; r < grid.size(); ++r) {
    Row row{{first, samples[r]}, {}};
    const auto count = static_cast<int>(grid[r].size());
    for (int i = 0; i < count; ++i) {
      const FilterRange filters{all * i / count, all * (i + 1) / count - all * i / count};
      if (filters.count > 0) row.shards.push_back({grid[r][i], filters});
    }
    first += samples[r];
    plan.rows.push_back(std::move(row));
  }
  if (plan.rows.size() < 2 || !has_parameters(stage)) return plan;
  // Each filter has a holder in every row, and the rows own consecutive parts of the filters.
  const auto rows = static_cast<int>(plan.rows.size());
  for (int r = 0; r < rows; ++r) {
    const FilterRange of_row{all * r / rows, all * (r + 1) / rows - all * r / rows};
    for (const Assignment& shard : plan.rows[r].shards) {
      const FilterRange owned = common(shard.filters, of_row);
      if (owned.count > 0) plan.owners.push_back({shard.member, owned});
    }
  }
  return plan;
}

/// Returns the names of members, the last of which is the master where `own` is set.
inline std::vector<std::string> member_names(int count, bool own) {
  std::vector<std::string> members;
  for (int i = 0; i < count; ++i) members.push_back("slave" + std::to_string(i));
  if (own) members.back() = kMasterName;
  return members;
}

}  // namespace convoy
