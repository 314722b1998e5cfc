#include "bench/commands.hpp"
#include "cli/command_line.hpp"
#include "core/allocator.hpp"
#include "core/exit_code.hpp"
#include "core/output.hpp"
#include "devices/library_threads.hpp"

namespace {

int run(int argc, char** argv) {
  CLI::App app{
      "Convoy's benchmarks measure or simulate. A measurement runs the things that it compares in turns, for several "
      "rounds, and prints medians."};
  app.require_subcommand(1);
  convoy::add_conv(app);
  int code = convoy::kSuccess;
  convoy::add_energy(app, code);
  convoy::add_estimate(app);
  convoy::add_operators(app);
  convoy::add_profile(app);
  convoy::add_sampling(app);
  convoy::add_simulate(app);
  convoy::add_sweep(app);
  convoy::add_tasks(app);
  convoy::add_train(app);
  convoy::add_transfer(app);
  convoy::add_transport(app);
  return convoy::parse_command_line(app, "convoy-bench", argc, argv).value_or(code);
}

}  // namespace

int main(int argc, char** argv) {
  convoy::prepare_output();
  return convoy::report_errors({.program = "convoy-bench"}, [&] {
    convoy::settle_library_threads(argv);
    convoy::keep_freed_memory();
    return run(argc, argv);
  });
}
