// The benchmarks; each adds itself to the command line and runs from there.
#pragma once

#include <CLI/CLI.hpp>

namespace convoy {

void add_conv(CLI::App& app);
void add_operators(CLI::App& app);
void add_profile(CLI::App& app);
void add_simulate(CLI::App& app);
void add_sweep(CLI::App& app);
void add_train(CLI::App& app);
void add_transport(CLI::App& app);

}  // namespace convoy
