#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "core/allocator.hpp"
#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "devices/registry.hpp"
#include "slave/serve.hpp"

namespace convoy {
namespace {

std::string default_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}-{}", host.data(), getpid());
}

void print_devices() {
  for (const DeviceRow& row : list_devices()) {
    fmt::print("{:<12} {}{}\n", row.name, row.description,
               row.unusable.empty() ? "" : fmt::format("; unusable here: {}", row.unusable));
  }
}

struct Options {
  SlaveOptions slave;
  std::string device = "auto";
  std::string memory;
  int threads = 0;
  bool list = false;
};

void define(CLI::App& app, Options& options) {
  app.add_option("master", options.slave.master, "the master's address, for example tcp://192.168.0.10:5570");
  app.add_option("--device", options.device, "device that computes; see --list-devices")->capture_default_str();
  app.add_option("--threads", options.threads, "threads to compute with (0: all cores)")->check(CLI::Range(0, 1024));
  app.add_option("--memory", options.memory,
                 "most memory that shards may take, for example 2GiB (default: 3/4 of what "
                 "is available now)");
  app.add_option("--name", options.slave.name, "name by which the master calls this slave (default: host-pid)");
  app.add_flag("--once", options.slave.once, "leave after one run instead of waiting for the next");
  app.add_flag("--list-devices", options.list, "list the devices of this program and leave");
}

int run(Options& options) {
  if (options.list) {
    print_devices();
    return kSuccess;
  }
  if (options.slave.master.empty()) {
    fail("no master's address; give it, as in: convoy-slave tcp://192.168.0.10:5570 (the master prints it)");
  }
  if (options.slave.name.empty()) options.slave.name = default_name();
  const auto device = make_device(options.device, options.threads);
  options.slave.memory = options.memory.empty() ? default_memory(device->info()) : parse_memory(options.memory);
  serve(options.slave, *device, catch_stop_signals());
  return kSuccess;
}

}  // namespace
}  // namespace convoy

int main(int argc, char** argv) {
  convoy::isolate_stop_signals();
  convoy::keep_freed_memory();
  CLI::App app{"Convoy's slave: computes its share of the filters for a master"};
  convoy::Options options;
  convoy::define(app, options);
  try {
    app.parse(argc, argv);
    return convoy::run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? convoy::kSuccess : convoy::kUsage;
  } catch (const convoy::DeviceLost& error) {
    fmt::print(stderr, "convoy-slave: {}\n", error.what());
    std::fflush(nullptr);
    std::_Exit(convoy::kFailure);  // the driver's own end might wait for the device for ever
  } catch (const std::exception& error) {
    fmt::print(stderr, "convoy-slave: {}\n", error.what());
    return convoy::kFailure;
  }
}
