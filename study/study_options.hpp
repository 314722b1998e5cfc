// The command-line options of a study, which convoy-bench and convoy-slave share.
#pragma once

#include <string>

#include "study/study.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace convoy::study {

/// Defines the options of a study but for its nets. `options` and `devices` must outlive the parsing; `devices` receives names
/// that are separated by commas (split_devices).
void define_study_options(CLI::App& command, StudyOptions& options, std::string& devices);

/// Runs the study on this machine until its end or Ctrl-C, and returns the exit code. To be called before any other thread
/// exists.
int study_here(StudyOptions options, const std::string& devices);

}  // namespace convoy::study
