// The command-line options for the machine that runs a net.
#pragma once

#include "master/commands/options.hpp"

namespace convoy {

/// Defines the options for the device, the heads, the batch and the output. `options` must outlive the parsing.
void define_machine(CLI::App& command, NetOptions& options);
/// Defines the options for the address and the keys of the links to slaves.
void define_listening(CLI::App& command, ClusterOptions& options);
/// Defines the option for the memory in which maps of images are kept.
void define_cache(CLI::App& command, ClusterOptions& options);

}  // namespace convoy
