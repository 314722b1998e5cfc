// The benchmarks. Each adds a subcommand to the command line, whose callback runs it.
#pragma once

#include "cli/checks.hpp"

namespace convoy {

void add_conv(CLI::App& app);
/// `code` receives the exit code, which says whether Ctrl-C ended the study.
void add_energy(CLI::App& app, int& code);
void add_estimate(CLI::App& app);
void add_operators(CLI::App& app);
void add_profile(CLI::App& app);
void add_sampling(CLI::App& app);
void add_simulate(CLI::App& app);
void add_sweep(CLI::App& app);
void add_tasks(CLI::App& app);
void add_train(CLI::App& app);
void add_transfer(CLI::App& app);
void add_transport(CLI::App& app);

}  // namespace convoy
