#include "master/commands/machine_options.hpp"

#include "cli/checks.hpp"
#include "devices/device_options.hpp"

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

}  // namespace convoy
