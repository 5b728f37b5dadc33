// Graphs of the simulated devices: what is queued while a stream is captured is recorded, and run
// when the graph is replayed. What CUDA forbids meanwhile is a DeviceError.
#pragma once

#include <ATen/core/Generator.h>

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/trainer/device/stream.h"
#include "trainer/compute/device_graph.h"

namespace ddprun::simulated {

std::unique_ptr<trainer::DeviceGraph> MakeGraph(c10::Device device);

// Replays since the last call, of all devices.
int64_t TakeReplays();

// What is being recorded on a device. Everything under BookLock().
struct Capture {
  uint64_t id = 0;  // also of the pool of its memory
  int device = 0;
  std::thread::id thread = {};  // that began it
  size_t origin = 0;
  std::set<size_t> streams = {};  // that belong to it
  std::vector<std::function<void()>> functions = {};
  std::map<std::pair<std::byte*, std::byte*>, bool> uses = {};  // whether they write
  // Memory of others, device's and pinned: address and owner.
  std::map<const std::byte*, uint64_t> owners = {};
  std::vector<at::Generator> generators = {};  // that it draws from
  std::string broken = {};                     // the first rule that was

  void Add(const std::vector<Use>& of_function, std::function<void()> function);
  // A stream that waits for an event of this capture.
  void Join(const c10::Stream& stream);
  [[noreturn]] void Refuse(const std::string& what);
};

// The one that a stream belongs to, or nullptr. Under BookLock().
Capture* CaptureOf(size_t stream);
// The one on the device, or nullptr. Under BookLock().
Capture* CaptureOn(int device);

// Throws where this thread, or its current stream, is in a capture on the device.
void RefuseInCapture(int device, const std::string& what);
// Whether the current stream of the device is captured; then a replay draws from the generator, or
// reads the pinned memory.
bool CapturesDraw(const at::Generator& generator);
bool CapturesRead(int device, const std::byte* pinned);

}  // namespace ddprun::simulated
