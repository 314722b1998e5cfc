// The command-line options of a study, which convoy-bench and convoy-slave share.
#pragma once

#include <string>

#include "study/study.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace convoy::study {

/// Defines all options of a study except its nets. `options` and `devices` must outlive the parsing; `devices` receives
/// the names of devices, separated by commas, which split_devices takes apart.
void define_study_options(CLI::App& command, StudyOptions& options, std::string& devices);

/// Runs the study on this machine until its end or Ctrl-C, and returns the exit code. To be called before any other
/// thread exists.
int study_here(StudyOptions options, const std::string& devices);

}  // namespace convoy::study
