// Observers that write the events of a run as JSON lines, to standard output or the run folder, and its epochs as CSV.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "train/observer.hpp"

namespace convoy {

/// Writes one JSON object a line.
std::unique_ptr<Observer> make_json_observer(std::FILE* to = stdout);
/// Writes `folder`/results.csv, with a row for each epoch, and `folder`/events.jsonl, with all events; appends to files
/// that exist.
std::unique_ptr<Observer> make_file_observer(const std::string& folder);

}  // namespace convoy
