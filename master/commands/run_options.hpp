// The options of a run that its config.yaml stores, so that `train --resume FOLDER` can read them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace convoy {

/// Options by name without the dashes, as in "slaves": "2"; flags are "true".
using RunOptions = std::map<std::string, std::string>;

/// The options that were given to `train`, without those that are part of the net and those for a single call, such as
/// --steps. Paths are made absolute, so that the run can be resumed from another folder.
RunOptions options_given(const CLI::App& train);

/// Sets the options of the run that were not given on the command line. If `names` is not empty, sets only these
/// options.
void take_over(CLI::App& command, const RunOptions& run, const std::vector<std::string>& names = {});

/// The absolute path of a data folder; "glyphs" is returned unchanged.
std::string place_of_data(const std::string& data);

/// A word as a shell reads it: in quotes if it needs them.
std::string shell_word(const std::string& word);

/// The differences between two texts of fingerprint(), as texts for people: "conv1.filters was 6 and is now 9".
std::vector<std::string> differences(const std::string& before, const std::string& now);

}  // namespace convoy
