// Streams: queues that threads of their own run, events, the host's waits.
//
// Beside the queues goes the bookkeeping of what surely comes before what (VectorClock): it is kept
// when work is queued, so that what the race detector finds does not depend on timing.
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

// For each stream its last operation that surely came before.
struct VectorClock {
  void Join(const VectorClock& other) {
    for (size_t i = 0; i < times.size(); ++i) times[i] = std::max(times[i], other.times[i]);
  }
  std::array<uint64_t, kDevices* kStreamsPerDevice> times = {};
};

// Something that happens once.
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

// What an operation does with memory.
struct Use {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  bool writes = false;
};

// An operation in a queue, as later messages name it.
struct Queued {
  std::string operation;
  size_t stream = 0;  // index of a VectorClock
  uint64_t time = 0;
  uint64_t pool = 0;  // of a graph that is replayed: it may use what it has freed itself
  Place place = {};
};
using QueuedPtr = std::shared_ptr<const Queued>;
std::string StreamName(size_t index);
std::string StreamName(const c10::Stream& stream);
size_t IndexOf(const c10::Stream& stream);

// The calling thread's.
int CurrentDevice();
void SetCurrentDevice(int device);
c10::Stream CurrentStream(int device);
c10::Stream ExchangeStream(const c10::Stream& stream);  // returns the one before
c10::Stream StreamFromPool(int device);

// Queues `kernel` on the stream under the name of what the thread is Doing. After an error on the
// device kernels are dropped until a wait of the host has thrown it. Throws for a data race.
QueuedPtr Queue(const c10::Stream& stream,
                const std::vector<Use>& uses,
                std::function<void()> kernel);
// Returns when it has run; throws what it throws. The host is not said to have waited for anything:
// for kernels that cannot be queued for the simulation's own reasons.
void QueueAndFinish(const c10::Stream& stream,
                    const std::vector<Use>& uses,
                    std::function<void()> kernel);
// For what is no kernel: signals, waits. Runs after errors as well.
void QueueControl(const c10::Stream& stream, std::function<void()> function);
// A graph, whose functions look after errors themselves.
void QueueReplay(const c10::Stream& stream,
                 const std::vector<Use>& uses,
                 uint64_t pool,
                 std::function<void()> function);
// What the host has queued on all streams since the last call: kernels, copies and replays.
int64_t TakeQueued();
// The device's next wait throws this, unless it has an error already.
void ReportError(int device, const std::string& text);

struct Event {
  SignalPtr signal;  // nullptr: never recorded, or in a capture
  VectorClock clock;
  int device = 0;
  uint64_t capture = 0;  // in which it was recorded
  size_t stream = 0;     // index of a VectorClock
};
void Record(Event& event, const c10::Stream& stream);
void LetWait(const Event& event, const c10::Stream& stream);
// Waits of the host; these throw the errors of the device's operations so far.
bool Query(const Event& event);
void Synchronize(const Event& event);
void Synchronize(const c10::Stream& stream);
bool Query(const c10::Stream& stream);
void SynchronizeDevice(int device);
// Whether operations were queued behind it, on its stream.
bool HasMoreBehind(const Event& event);
// After what the streams have in their queues, whether they are captured or not.
void RecordInQueue(Event& event, const c10::Stream& stream);
std::vector<Event> RecordAll(int device);

// For those who keep books of their own; under BookLock().
std::unique_lock<std::mutex> BookLock();
// What is before the work that the calling thread queues next on a stream.
VectorClock& ClockOf(size_t stream);
// What the host of a device has waited for.
const VectorClock& HostClock(int device);

}  // namespace ddprun::simulated
