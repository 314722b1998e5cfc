// The options of a search that its folder keeps, so that `search --resume FOLDER` can read them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace convoy {

/// The files of a search's folder that say what is searched.
inline constexpr const char* kSpaceOfSearch = "space.yaml";
inline constexpr const char* kNetOfSearch = "net.yaml";
inline constexpr const char* kOptionsOfSearch = "options.json";

struct SavedSearch {
  std::map<std::string, std::string> run;  ///< options by name without the dashes; data and seed are among them
  std::vector<std::string> fixed;          ///< fields of the net that are the same in all trials
  // Bounds that replace those of the space; 0 where it decides.
  long trials = 0;
  long images = 0;
  double hours = 0.0;
};

/// Writes options.json. Throws Error.
void write_search(const std::string& folder, const SavedSearch& search);
/// Reads it. Throws Error naming the folder where it has no search.
SavedSearch read_search(const std::string& folder);

}  // namespace convoy
