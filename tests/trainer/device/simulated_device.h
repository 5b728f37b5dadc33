// An accelerator that is none, for tests of programs that use one: kDeviceType, kDevices of them.
//
// It registers itself with LibTorch when the program starts. Its operations are queued, run by
// threads, and compute the CPU's bits. It throws DeviceError for what would be a mistake on a real
// device as well: data races, use of freed memory, tensors of two devices, waits of the host that
// were forbidden. docs/device.md says what it cannot show.
#pragma once

#include "tests/trainer/device/allocator.h"  // IWYU pragma: export
#include "tests/trainer/device/host_sync.h"  // IWYU pragma: export
#include "tests/trainer/device/place.h"      // IWYU pragma: export
#include "tests/trainer/device/stream.h"     // IWYU pragma: export
