#include "master/commands/machine_options.hpp"

#include "cli/checks.hpp"
#include "devices/device_options.hpp"
#include "devices/registry.hpp"

namespace convoy {

void define_machine(CLI::App& command, NetOptions& options) {
  define_device_options(command, options.device, options.device_options,
                        "device of this machine; convoy-slave --list-devices lists them");
  command
      .add_option_function<std::string>(
          "--heads",
          [&options](const std::string& word) {
            options.heads = word == "device" ? HeadsOn::device : word == "host" ? HeadsOn::host : HeadsOn::automatic;
          },
          "what computes the dense layers on this machine: host, device, or auto, the device if it is a GPU with "
          "memory of its own")
      ->check(one_of({"auto", "host", "device"}))
      ->default_str("auto");
  command.add_option("--batch", options.batch, "images in a step (default: the net file's)")
      ->check(whole_number(1, 65536));
  command
      .add_option_function<std::string>(
          "--corrupt",
          [&options](const std::string& word) { options.corrupt = word == "skip" ? Corrupt::skip : Corrupt::refuse; },
          "treatment of photographs that cannot be decoded: refuse or skip")
      ->check(one_of({"refuse", "skip"}))
      ->default_str("refuse");
  command.add_option("--format", options.format, "text for people, or json for programs: one JSON object on each line")
      ->check(one_of({"text", "json"}))
      ->capture_default_str();
}

void define_listening(CLI::App& command, ClusterOptions& options) {
  command.add_option("--listen", options.listen, "address at which slaves reach this master")->capture_default_str();
  command.add_flag(
      "--insecure", options.insecure,
      "turn encryption and authentication of links off, on a network that you trust; slaves need the same option");
  command
      .add_option("--keys", options.keys,
                  "file with this master's keys, made if it does not exist (default: convoy/master-keys.json in "
                  "$XDG_CONFIG_HOME or ~/.config)")
      ->excludes("--insecure");
}

void define_cache(CLI::App& command, ClusterOptions& options) {
  command
      .add_option(
          "--cache-maps", options.cache_maps,
          "memory for the maps of images, for example 2GiB, so that frozen convolutions compute each image once "
          "(default: none)")
      ->check(readable([](const std::string& text) { parse_memory(text); }));
}

}  // namespace convoy
