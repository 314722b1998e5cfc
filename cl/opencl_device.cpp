#include "cl/opencl_device.hpp"

#include <fmt/format.h>

#include "cl/clblast.hpp"
#include "cl/shard.hpp"
#include "kernels/host/grouped.hpp"

namespace convoy {
namespace {

class ClDevice : public Device {
 public:
  ClDevice(const ClDeviceId& id, const ClSettings& settings) : shared_(id, settings) {
    const bool products = settings.convolutions == ClConvolutions::products;
    info_.name = fmt::format("{}:{}", products ? "clblast" : "opencl", id.number);
    info_.description = describe(id) + (products ? kByClblast : "") + (settings.half ? ", 16-bit maps" : "");
    info_.memory = device_info<cl_ulong>(id.device, CL_DEVICE_GLOBAL_MEM_SIZE);
    info_.memory_factor = 1.4;  // includes packed copies (tests/cl, OpenClMemory)
    info_.rounds_correctly = shared_.context.rounds_correctly();
    info_.filter_block = 2;  // tiles hold 8, 10 or 12 filters (filters_of_tile)
  }

  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Shard> compile(const ShardSpec& spec) override {
    const int groups = groups_in(spec);
    if (spec.stage.conv.groups > 1 && groups <= kMostParts) return compile_in_parts(*this, spec, false);
    return make_cl_shard(shared_, spec);
  }
  std::unique_ptr<DeviceTensor> make_tensor(const Shape& shape) override {
    return std::make_unique<ClTensor>(shared_, shape, "maps");
  }
  void finish() override { shared_.context.finish(); }

 private:
  ClShared shared_;
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> make_opencl_device(int number, const ClSettings& settings) {
  const std::vector<ClDeviceId> devices = opencl_devices();
  if (number < 0 || static_cast<std::size_t>(number) >= devices.size()) {
    fail("there is no device opencl:{}; this machine has opencl:0 to opencl:{}", number, devices.size() - 1);
  }
  const ClDeviceId& id = devices[number];
  if (!id.unusable.empty()) fail("opencl:{} ({}) cannot be used: {}", number, id.name, id.unusable);
  if (settings.convolutions == ClConvolutions::products && !clblast_missing().empty()) {
    fail("clblast:{} cannot be used: no CLBlast: {}", number, clblast_missing());
  }
  return std::make_unique<ClDevice>(id, settings);
}

}  // namespace convoy
