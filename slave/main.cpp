#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "cli/checks.hpp"
#include "cli/command_line.hpp"
#include "core/allocator.hpp"
#include "core/cache_folder.hpp"
#include "core/exit_code.hpp"
#include "core/files.hpp"
#include "core/output.hpp"
#include "core/stop_signal.hpp"
#include "core/text.hpp"
#include "devices/calibrate.hpp"
#include "devices/device_options.hpp"
#include "devices/library_threads.hpp"
#include "devices/registry.hpp"
#include "energy/meter_list.hpp"
#include "energy/meters.hpp"
#include "slave/serve.hpp"
#include "slave/several.hpp"
#include "slave/study_command.hpp"
#include "wire/endpoint.hpp"

namespace convoy {
namespace {

std::string default_name() {
  constexpr std::size_t kLongestHost = 48;  // leaves room for the number and for a device
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}-{}", printable(std::string_view(host.data()).substr(0, kLongestHost)), getpid());
}

/// Prints each device with its speed and the memory that its shards may take, or the reason why it cannot be used.
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
  std::string keep_images;
  std::string key;
  std::string key_file;
  bool insecure = false;
  DeviceOptions device_options;
  bool list = false;
  bool list_meters = false;
  std::string meter;
};

/// The text of a key file, without blanks around it.
std::string key_in(const std::string& file) {
  constexpr std::size_t kMost = 4096;
  const std::vector<std::uint8_t> bytes = read_file(file, kMost);
  if (others_can_read(file)) fail("{}: other users can read this key; run `chmod 600` on the file", file);
  const std::string text(bytes.begin(), bytes.end());
  const char* const kBlanks = " \t\r\n";
  const auto first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// The bytes of images that a slave may keep in memory.
std::size_t bytes_of_images(const std::string& text) {
  constexpr std::size_t kMost = std::size_t{512} << 20;
  constexpr std::size_t kPart = 8;
  if (text == "none") return 0;
  if (!text.empty()) return parse_memory(text);
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return kMost / kPart;
  return std::min(kMost, static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) / kPart);
}

void define(CLI::App& app, Options& options) {
  app.add_option(
      "master", options.slave.master,
      "address of the master, for example tcp://192.168.0.10:5570; without it, the slave looks for its master on the "
      "LAN by the key");
  app.add_option("--key", options.key,
                 "key that the master prints; the variable CONVOY_KEY hides it from other users of this machine")
      ->envname("CONVOY_KEY");
  app.add_option("--key-file", options.key_file, "file that holds the key, which only its owner may be able to read");
  app.add_flag(
      "--insecure", options.insecure,
      "turn encryption and authentication of links off, on a network that you trust; the master needs the same option");
  define_device_options(
      app, options.device, options.device_options,
      "device that computes, or several separated by commas, each a slave of its own; see --list-devices");
  app.add_option(
      "--cache", options.cache,
      "folder that keeps the weights with which a run began, and images, so that they need not travel again after a "
      "restart; with none, the slave keeps neither these nor times of stages on disk (default: "
      "~/.cache/convoy/states)");
  app.add_option(
         "--keep-images", options.keep_images,
         "memory for images that this slave keeps, and as much space on disk in the folder of --cache, so that "
         "jobs need not send them again; with none it keeps no images (default: 512MiB, or 1/8 of the memory if "
         "less)")
      ->check(readable([](const std::string& text) { bytes_of_images(text); }));
  define_memory_option(
      app, options.memory,
      "largest memory that its part of a net may take, for example 2GiB (default: 3/4 of the memory available)");
  app.add_option("--name", options.slave.name, "name of this slave, at most 64 bytes (default: HOST-PID)");
  app.add_option("--peer-port", options.slave.peer_port,
                 "TCP port at which other slaves reach this one, to open in a firewall; each further device takes the "
                 "next port (default: any free port)")
      ->check(whole_number(1, 65535));
  app.add_flag("--once", options.slave.once, "end after one run instead of waiting for the next");
  app.add_flag("--list-devices", options.list, "list and time the devices of this machine, and end");
  app.add_flag("--list-meters", options.list_meters,
               "list the energy meters of this machine, with the reasons why some cannot be used, and end");
  app.add_option("--meter", options.meter,
                 "meter that measures the energy of this machine: a name that --list-meters prints, shelly:ADDRESS, "
                 "tasmota:ADDRESS, "
                 "csv:FILE, or none (default: the best for the whole machine, else for the device)");
}

wire::JoinKey join_key_of(const Options& options) {
  const bool from_file = !options.key_file.empty();
  const std::string key = from_file ? key_in(options.key_file) : options.key;
  try {
    return wire::join_key_from(key);
  } catch (const Error& error) {
    fail("{}: {}", from_file ? options.key_file : "--key", error.what());
  }
}

std::vector<std::string> named_meters(const Options& options) {
  if (options.meter.empty() || options.meter == "none") return {};
  return {options.meter};
}

/// The meter of this machine for a slave on a device, or why there is none. `device` is the option's word for it, such
/// as "auto", and `computes_on` its name. Of several slaves on one machine the first has it, so that the machine is not
/// counted twice.
energy::MemberMeter meter_of(const energy::Machine& machine, const Options& options, const std::string& device,
                             const std::string& computes_on) {
  if (options.meter == "none") return {.row = std::nullopt, .why = "turned off with --meter none"};
  if (split_devices(options.device).front() != device) {
    return {.row = std::nullopt, .why = "the slave on the first device of --device measures this machine"};
  }
  return energy::meter_for_member(machine, options.meter, is_gpu(computes_on));
}

void serve_on(Options options, const std::string& device_name) {
  go_on_without_output("convoy-slave goes on computing without it");
  isolate_stop_signals();
  const auto device = make_device(device_name, options.device_options);
  if (!options.insecure) options.slave.key = join_key_of(options);
  options.slave.cache = options.cache.empty() ? cache_folder("states") : std::filesystem::path(options.cache);
  options.slave.images = options.cache.empty() ? cache_folder("images") : options.slave.cache / "images";
  if (options.cache == "none" || device->info().paced) options.slave.images.clear();
  options.slave.keep_images = bytes_of_images(options.keep_images);
  if (options.cache == "none" || device->info().paced) options.slave.cache.clear();  // a paced device keeps no weights
  if (options.cache != "none") options.slave.times = cache_folder("times");
  const auto machine = energy::this_machine();
  energy::MemberMeter meter = meter_of(*machine, options, device_name, device->info().name);
  std::optional<energy::Sampler> sampler;
  options.slave.no_meter = meter.why;
  if (meter.row) options.slave.sampler = &sampler.emplace(std::move(*meter.row));
  options.slave.memory = options.memory.empty() ? default_memory(device->info()) : parse_memory(options.memory);
  serve(options.slave, *device, catch_stop_signals());
}

const ErrorReport kReport{.program = "convoy-slave"};

int run(const Options& options) {
  if (options.list) {
    print_devices(options.device_options);
    return kSuccess;
  }
  if (options.list_meters) {
    fmt::print("{}", energy::meter_list(*energy::this_machine(), named_meters(options)));
    return kSuccess;
  }
  if (!options.key.empty() && !options.key_file.empty()) {
    fail("a key is given twice: by --key-file, and by --key or the variable CONVOY_KEY; leave one of them out");
  }
  const bool has_key = !options.key.empty() || !options.key_file.empty();
  if (options.insecure == has_key) {
    fail("{}; paste the line that the master prints, with its CONVOY_KEY, or start both with --insecure",
         options.insecure ? "a key and --insecure exclude each other" : "the slave has no key");
  }
  if (options.slave.master.empty() && options.insecure) {
    fail(
        "no master's address is given; give one, as in: convoy-slave tcp://192.168.0.10:5570 --insecure (only a slave "
        "with a key finds its master without an address)");
  }
  if (!options.slave.master.empty()) wire::address_of_master(options.slave.master);  // throws Error if it is not valid
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
    return report_errors(kReport, [&] {
      if (const auto fault = fault_of_name(own.slave.name)) fail("--name: {}; choose another", *fault);
      serve_on(own, device);
      return kSuccess;
    });
  };
  return devices.size() == 1 ? slave_on(devices.front()) : run_each_apart(devices, slave_on);
}

}  // namespace
}  // namespace convoy

int main(int argc, char** argv) {
  convoy::prepare_output();
  return convoy::report_errors(convoy::kReport, [&] {
    convoy::settle_library_threads(argv);
    convoy::keep_freed_memory();
    CLI::App app{"Convoy's slave computes its share of a net for a master."};
    convoy::Options options;
    convoy::define(app, options);
    std::optional<int> studied;
    convoy::add_study(app, studied);
    if (const auto code = convoy::parse_command_line(app, "convoy-slave", argc, argv)) return *code;
    if (studied) return *studied;
    return convoy::run(options);
  });
}
