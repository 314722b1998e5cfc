#include "devices/device_options.hpp"

#include "cli/checks.hpp"

namespace convoy {

void define_device_options(CLI::App& command, std::string& device, DeviceOptions& options,
                           const std::string& device_help) {
  command.add_option("--device", device, device_help)->capture_default_str();
  command.add_option("--threads", options.threads, "number of threads to compute with (0: all cores)")
      ->check(whole_number(0, 1024));
  command.add_flag("--tf32", options.tf32, "let NVIDIA GPUs round factors to 10 bits of mantissa, for speed");
  command.add_flag("--fp16", options.fp16,
                   "let OpenCL devices store the inputs of convolutions, maps and weights, in 16 bits");
  command
      .add_option_function<std::string>(
          "--compute", [&options](const std::string& type) { options.bf16 = type == "bf16"; },
          "number type of convolutions on the cpu device: fp32, or bf16, which multiplies bfloat16 and sums in fp32, "
          "for "
          "speed on processors with instructions for it")
      ->check(one_of({"fp32", "bf16"}))
      ->default_str("fp32");
}

void define_memory_option(CLI::App& command, std::string& memory, const std::string& help) {
  command.add_option("--memory", memory, help)->check(readable([](const std::string& text) { parse_memory(text); }));
}

}  // namespace convoy
