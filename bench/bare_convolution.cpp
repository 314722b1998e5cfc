#include "bench/bare_convolution.hpp"

#include <optional>
#include <string_view>

namespace convoy {
namespace {

/// 1 of "cuda:1" or "cublas:1"; the first where no number is named. Nothing for other devices.
std::optional<int> nvidia_gpu(std::string_view device) {
  const std::string_view kind = device.substr(0, device.find(':'));
  if (kind != "cuda" && kind != "cublas") return std::nullopt;
  return kind == device ? 0 : std::stoi(std::string(device.substr(kind.size() + 1)));
}

}  // namespace

BareLayouts make_bare_for(const BareRequest& request) {
  if (const std::optional<int> gpu = nvidia_gpu(request.device)) {
    return make_bare_cudnn_convolutions(*gpu, request.stage, request.filters, request.batch, request.tf32);
  }
  return make_bare_convolutions(request.stage, request.filters, request.batch, request.threads);
}

bool is_nvidia_gpu(const std::string& device) { return nvidia_gpu(device).has_value(); }

}  // namespace convoy
