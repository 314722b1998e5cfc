// The command-line options for the machine that runs a net.
#pragma once

#include "master/commands/options.hpp"

namespace convoy {

/// Defines the options for the device, the heads, the batch and the output. `options` must outlive the parsing.
void define_machine(CLI::App& command, NetOptions& options);

}  // namespace convoy
