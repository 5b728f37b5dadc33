// Simulated accelerators, for tests of programs that use one: kDevices of type kDeviceType.
//
// They register themselves with LibTorch when the program starts. Operations are queued, run by
// threads, and have the CPU's bits. A mistake that is one on a real device, too, throws
// DeviceError: data races, use of freed memory, tensors of two devices, forbidden waits of the
// host. docs/device.md says what they cannot show.
#pragma once

#include "tests/trainer/device/allocator.h"  // IWYU pragma: export
#include "tests/trainer/device/host_sync.h"  // IWYU pragma: export
#include "tests/trainer/device/place.h"      // IWYU pragma: export
#include "tests/trainer/device/stream.h"     // IWYU pragma: export
