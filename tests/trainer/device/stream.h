// Streams (queues with a thread each), events, and the host's waits.
//
// VectorClocks record which work surely comes before which. They change when work is queued, so
// that the race detector does not depend on timing.
#pragma once

#include <c10/core/Stream.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/trainer/device/memory.h"
#include "tests/trainer/device/place.h"

namespace ddprun::simulated {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline constexpr int kStreamsPerDevice = 33;  // the default stream and a pool of 32

inline c10::Device DeviceAt(int index = 0) {
  return {kDeviceType, static_cast<c10::DeviceIndex>(index)};
}

// For each stream, its last operation that surely came before.
struct VectorClock {
  void Join(const VectorClock& other) {
    for (size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], other.times[i]);
  }
  std::array<uint64_t, kDevices* kStreamsPerDevice> times = {};
};

// An event that happens once.
class Signal {
 public:
  void Set();
  void Wait() const { done_.wait(false); }
  bool IsSet() const { return done_.load(); }
  std::chrono::steady_clock::time_point time() const { return time_; }  // when it was set

 private:
  std::atomic<bool> done_ = false;
  std::chrono::steady_clock::time_point time_;
};
using SignalPtr = std::shared_ptr<Signal>;

// An operation's use of memory.
struct Use {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  bool writes = false;
};

// An operation in a queue, for later messages.
struct Queued {
  std::string operation;
  size_t stream = 0;  // index of a VectorClock
  uint64_t time = 0;
  uint64_t pool = 0;  // of a replayed graph, which may use memory that it has freed itself
  Place place = {};
};
using QueuedPtr = std::shared_ptr<const Queued>;
std::string StreamName(size_t index);
std::string StreamName(const c10::Stream& stream);
size_t IndexOf(const c10::Stream& stream);

// The calling thread's device and stream.
int CurrentDevice();
void SetCurrentDevice(int device);
c10::Stream CurrentStream(int device);
c10::Stream ExchangeStream(const c10::Stream& stream);  // returns the one before
c10::Stream StreamFromPool(int device);

// Queues `kernel` on the stream, named by the thread's Doing. After an error of the device, kernels
// are dropped until a wait of the host has thrown the error. Throws if there is a data race.
QueuedPtr Queue(const c10::Stream& stream,
                const std::vector<Use>& uses,
                std::function<void()> kernel);
// Runs `kernel` in the queue's order, and throws what it throws. This does not count as a wait of
// the host. For kernels that only the simulation cannot queue.
void QueueAndFinish(const c10::Stream& stream,
                    const std::vector<Use>& uses,
                    std::function<void()> kernel);
// Queues a function that is not a kernel: a signal, a wait. It runs after errors, too.
void QueueControl(const c10::Stream& stream, std::function<void()> function);
// Queues a graph's replay; its functions handle errors themselves.
void QueueReplay(const c10::Stream& stream,
                 const std::vector<Use>& uses,
                 uint64_t pool,
                 std::function<void()> function);
// Returns how many kernels, copies and replays the host has queued since the last call.
int64_t TakeQueued();
// Makes the next wait for the device throw this error, unless there is an earlier one.
void ReportError(int device, const std::string& text);

struct Event {
  SignalPtr signal;  // nullptr means never recorded, or recorded in a capture
  VectorClock clock;
  int device = 0;
  uint64_t capture = 0;  // the capture in which it was recorded
  size_t stream = 0;     // index of a VectorClock
};
void Record(Event& event, const c10::Stream& stream);
void LetWait(const Event& event, const c10::Stream& stream);
// Waits of the host. They throw errors of the device's operations so far.
bool Query(const Event& event);
void Synchronize(const Event& event);
void Synchronize(const c10::Stream& stream);
bool Query(const c10::Stream& stream);
void SynchronizeDevice(int device);
// Returns whether operations were queued after the event on its stream.
bool HasMoreBehind(const Event& event);
// Record events after the queues' contents, also of captured streams.
void RecordInQueue(Event& event, const c10::Stream& stream);
std::vector<Event> RecordAll(int device);

// The lock of all bookkeeping, also of other files.
std::unique_lock<std::mutex> BookLock();
// Returns the clock of a stream: all that comes before work that this thread queues next.
VectorClock& ClockOf(size_t stream);
// Returns the clock of all for which the host of a device has waited.
const VectorClock& HostClock(int device);

}  // namespace ddprun::simulated
