// The command-line options that choose a device and set it up. Several programs share them.
#pragma once

#include <string>

#include "devices/registry.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace convoy {

/// Defines --device, with the help text `device_help`, and --threads, --tf32, --fp16 and --compute. Both
/// variables must outlive the parsing.
void define_device_options(CLI::App& command, std::string& device, DeviceOptions& options,
                           const std::string& device_help);

/// Defines --memory, with the help text `help`. `memory` receives the text for parse_memory().
void define_memory_option(CLI::App& command, std::string& memory, const std::string& help);

}  // namespace convoy
