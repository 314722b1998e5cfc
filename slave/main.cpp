#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "core/allocator.hpp"
#include "core/cache_folder.hpp"
#include "core/exit_code.hpp"
#include "core/stop_signal.hpp"
#include "devices/calibrate.hpp"
#include "devices/library_threads.hpp"
#include "devices/registry.hpp"
#include "slave/serve.hpp"
#include "slave/several.hpp"

namespace convoy {
namespace {

std::string default_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}-{}", host.data(), getpid());
}

/// Each device with its speed and the memory that its shards may take, or why it cannot be used.
void print_devices(const DeviceOptions& options) {
  fmt::print("{:<12} {:>8}  {:>8}  {}\n", "device", "GFLOP/s", "memory", "");
  for (const DeviceRow& row : list_devices()) {
    std::string unusable = row.unusable;
    if (unusable.empty()) {
      try {
        const auto device = make_device(row.name, options);
        const double memory = static_cast<double>(default_memory(device->info())) / static_cast<double>(1 << 30);
        const std::string& detail = device->info().description;
        fmt::print("{:<12} {:>8.3g}  {:>4.1f} GiB  {}{}\n", row.name, measure_speed(*device), memory, row.description,
                   detail == row.description ? "" : "; " + detail);
      } catch (const std::exception& error) {
        unusable = error.what();
      }
    }
    if (!unusable.empty()) {
      fmt::print("{:<12} {:>8}  {:>8}  {}; unusable here: {}\n", row.name, "-", "-", row.description, unusable);
    }
    std::fflush(stdout);
  }
}

struct Options {
  SlaveOptions slave;
  std::string device = "auto";
  std::string memory;
  std::string cache;
  std::string key;
  bool insecure = false;
  DeviceOptions device_options;
  bool list = false;
};

void define(CLI::App& app, Options& options) {
  app.add_option(
      "master", options.slave.master,
      "the master's address, for example tcp://192.168.0.10:5570; without it the slave looks on the LAN for the "
      "master of its key");
  app.add_option("--key", options.key,
                 "the key that the master prints; better in the variable, where others cannot see it")
      ->envname("CONVOY_KEY");
  app.add_flag(
      "--insecure", options.insecure,
      "neither encrypt nor authenticate, as the master does with the same option: for networks that you trust");
  app.add_option("--device", options.device,
                 "device that computes, or several with commas, each a slave of its own; see --list-devices")
      ->capture_default_str();
  app.add_option("--threads", options.device_options.threads, "threads to compute with (0: all cores)")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--tf32", options.device_options.tf32,
               "let NVIDIA GPUs round factors to 10 bits of mantissa, for speed");
  app.add_flag("--fp16", options.device_options.fp16,
               "keep what convolutions on OpenCL devices read, input maps and weights, in 16 bits");
  app.add_option_function<std::string>(
         "--compute", [&options](const std::string& type) { options.device_options.bf16 = type == "bf16"; },
         "fp32, or bf16: convolutions on the cpu device multiply bfloat16 and sum in fp32, for speed where the "
         "processor "
         "has instructions for it")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->default_str("fp32");
  app.add_option(
      "--cache", options.cache,
      "folder for weights that were loaded, so that they need not travel again after this program is started "
      "anew; none: they are kept in memory alone (default: ~/.cache/convoy/states)");
  app.add_option("--memory", options.memory,
                 "most memory that shards may take, for example 2GiB (default: 3/4 of what "
                 "is available now)");
  app.add_option("--name", options.slave.name, "name by which the master calls this slave (default: host-pid)");
  app.add_option(
         "--peer-port", options.slave.peer_port,
         "TCP port at which other slaves reach this one, for a firewall's sake; with several devices each takes "
         "the next (default: any that is free)")
      ->check(CLI::Range(1, 65535));
  app.add_flag("--once", options.slave.once, "leave after one run instead of waiting for the next");
  app.add_flag("--list-devices", options.list, "list the devices of this machine, time each, and leave");
}

void serve_on(Options options, const std::string& device_name) {
  isolate_stop_signals();
  const auto device = make_device(device_name, options.device_options);
  if (!options.insecure) options.slave.key = wire::join_key_from(options.key);
  options.slave.cache = options.cache.empty() ? cache_folder("states") : std::filesystem::path(options.cache);
  if (options.cache == "none") options.slave.cache.clear();
  options.slave.memory = options.memory.empty() ? default_memory(device->info()) : parse_memory(options.memory);
  serve(options.slave, *device, catch_stop_signals());
}

/// Says what goes wrong; the exit code.
int report_errors(const std::function<int()>& work) {
  try {
    return work();
  } catch (const DeviceLost& error) {
    end_without_device("convoy-slave", error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "convoy-slave: {}\n", error.what());
    return kFailure;
  }
}

int run(const Options& options) {
  if (options.list) {
    print_devices(options.device_options);
    return kSuccess;
  }
  if (options.insecure == !options.key.empty()) {
    fail("{}; paste the line that the master prints, with its --key, or start both with --insecure",
         options.insecure ? "--key and --insecure exclude each other" : "no key");
  }
  if (options.slave.master.empty() && options.insecure) {
    fail(
        "no master's address; give it, as in: convoy-slave tcp://192.168.0.10:5570 --insecure (without one a slave "
        "finds its master by the --key)");
  }
  const std::vector<std::string> devices = split_devices(options.device);
  const auto slave_on = [&](const std::string& device) {
    Options own = options;
    if (own.slave.name.empty()) {
      own.slave.name = default_name();
    } else if (devices.size() > 1) {
      own.slave.name += "-" + device;
    }
    if (own.slave.peer_port != 0) {
      own.slave.peer_port += static_cast<int>(std::ranges::find(devices, device) - devices.begin());
    }
    return report_errors([&] {
      serve_on(own, device);
      return kSuccess;
    });
  };
  return devices.size() == 1 ? slave_on(devices.front()) : run_each_apart(devices, slave_on);
}

}  // namespace
}  // namespace convoy

int main(int argc, char** argv) {
  convoy::settle_library_threads(argv);
  convoy::keep_freed_memory();
  CLI::App app{"Convoy's slave: computes its share of the filters for a master"};
  convoy::Options options;
  convoy::define(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? convoy::kSuccess : convoy::kUsage;
  }
  return convoy::report_errors([&] { return convoy::run(options); });
}
