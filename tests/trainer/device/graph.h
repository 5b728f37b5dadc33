// Graphs of the simulated devices. Work that is queued while a stream is captured is recorded, and
// runs when the graph is replayed. An action that CUDA forbids meanwhile is a DeviceError.
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

// Returns the number of replays on all devices since the last call.
int64_t TakeReplays();

// A recording on a device. REQUIRES: BookLock() for all of it.
struct Capture {
  uint64_t id = 0;  // also the id of its memory's pool
  int device = 0;
  std::thread::id thread = {};  // the thread that began it
  size_t origin = 0;
  std::set<size_t> streams = {};  // the streams that belong to it
  std::vector<std::function<void()>> functions = {};
  std::map<std::pair<std::byte*, std::byte*>, bool> uses = {};  // whether they write
  // Device and pinned memory from outside of its pool: address and owner.
  std::map<const std::byte*, uint64_t> owners = {};
  std::vector<at::Generator> generators = {};  // those from which it draws
  std::string broken = {};                     // the first broken rule

  void Add(const std::vector<Use>& of_function, std::function<void()> function);
  // Adds a stream that waits for an event of this capture.
  void Join(const c10::Stream& stream);
  [[noreturn]] void Refuse(const std::string& what);
};

// Returns the capture of a stream, or nullptr. REQUIRES: BookLock().
Capture* CaptureOf(size_t stream);
// Returns the capture on a device, or nullptr. REQUIRES: BookLock().
Capture* CaptureOn(int device);

// Throws if this thread or its current stream is in a capture on the device.
void RefuseInCapture(int device, const std::string& what);
// Return whether the current stream of the device is captured. If so, each replay draws from the
// generator, or reads the pinned memory.
bool CapturesDraw(const at::Generator& generator);
bool CapturesRead(int device, const std::byte* pinned);

}  // namespace ddprun::simulated
