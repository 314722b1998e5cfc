// Observers that write the events of a run as JSON lines, to standard output or the run folder, and its epochs as CSV.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "train/observer.hpp"

namespace convoy {

/// Writes one JSON object a line. `paced` is the name of a paced device, which marks every line of a run on it.
std::unique_ptr<Observer> make_json_observer(std::FILE* to = stdout, const std::string& paced = {});
/// Writes `folder`/results.csv, with a row for each epoch, and `folder`/events.jsonl, with all events; appends to files
/// that exist already. With `paced`, every row and every line names this device.
std::unique_ptr<Observer> make_file_observer(const std::string& folder, const std::string& paced = {});

}  // namespace convoy
