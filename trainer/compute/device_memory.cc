#include "trainer/compute/device_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace ddprun::trainer {

DeviceMemoryPeak TakeMemoryPeak(c10::Device device) {
  if (device.is_cpu()) return {};
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  if (!allocator->initialized()) return {};
  const auto stats = allocator->getDeviceStats(device.index());
  allocator->resetPeakStats(device.index());
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated = stats.allocated_bytes[kAll].peak,
          .reserved = stats.reserved_bytes[kAll].peak};
}

}  // namespace ddprun::trainer
