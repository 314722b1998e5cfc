// The options of a run, as its config.yaml keeps them: what `train --resume FOLDER` takes from there.
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

/// The options that were given to `train` but for those that the net holds or that are of one call alone, such as --steps.
/// Files and folders are absolute, so that the run can go on from another folder.
RunOptions options_given(const CLI::App& train);

/// Sets those of the run's options that were not given on the command line: all, or those of `names` alone.
void take_over(CLI::App& command, const RunOptions& run, const std::vector<std::string>& names = {});

/// The absolute path of a folder of data; "glyphs" stays as it is.
std::string place_of_data(const std::string& data);

/// A word as a shell takes it: in quotes where it needs them.
std::string shell_word(const std::string& word);

/// What differs between two texts of fingerprint(), for people: "conv1.filters was 6 and is 9".
std::vector<std::string> differences(const std::string& before, const std::string& now);

}  // namespace convoy
