#include <fmt/core.h>

#include "bench/commands.hpp"
#include "core/allocator.hpp"
#include "core/exit_code.hpp"
#include "devices/library_threads.hpp"

int main(int argc, char** argv) {
  convoy::settle_library_threads(argv);
  convoy::keep_freed_memory();
  CLI::App app{"Convoy's benchmarks. Each prints medians over interleaved rounds of one run."};
  app.require_subcommand(1);
  convoy::add_conv(app);
  convoy::add_operators(app);
  convoy::add_profile(app);
  convoy::add_simulate(app);
  convoy::add_sweep(app);
  convoy::add_train(app);
  convoy::add_transport(app);
  try {
    app.parse(argc, argv);
    return convoy::kSuccess;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? convoy::kSuccess : convoy::kUsage;
  } catch (const convoy::DeviceLost& error) {
    convoy::end_without_device("convoy-bench", error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "convoy-bench: {}\n", error.what());
    return convoy::kFailure;
  }
}
