#include "tests/trainer/device/stream.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <condition_variable>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "tests/trainer/device/graph.h"
#include "tests/trainer/device/pinned_memory.h"
#include "tests/trainer/device/race_detector.h"

namespace ddprun::simulated {
namespace {

struct StreamQueue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> functions;
  bool has_thread = false;
};

struct StickyError {
  std::mutex mutex;
  std::string text;
  std::atomic<bool> is_set = false;
};

struct World {
  std::array<StreamQueue, kDevices * kStreamsPerDevice> queues;
  std::array<StickyError, kDevices> errors;
  std::array<std::atomic<int>, kDevices> next_in_pool = {};
  std::atomic<int64_t> queued = 0;
  std::mutex mutex;  // guards all members below
  std::array<VectorClock, kDevices * kStreamsPerDevice> clocks;
  std::array<VectorClock, kDevices> host_clocks;
};

// Never destroyed, because its threads run until the program's end.
World& TheWorld() {
  static World* const world = new World;
  return *world;
}

thread_local int current_device = 0;
thread_local std::array<int64_t, kDevices> current_streams = {};
// The clock of all for which this thread has waited, on any device.
thread_local VectorClock thread_clock;

void RunQueue(StreamQueue& queue) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::NoGradGuard no_grad;
  std::unique_lock lock(queue.mutex);
  while (true) {
    queue.changed.wait(lock, [&] { return !queue.functions.empty(); });
    const std::function<void()> function = std::move(queue.functions.front());
    queue.functions.pop_front();
    lock.unlock();
    function();
    lock.lock();
  }
}

void Push(size_t stream, std::function<void()> function) {
  StreamQueue& queue = TheWorld().queues[stream];
  const std::lock_guard lock(queue.mutex);
  queue.functions.push_back(std::move(function));
  if (!std::exchange(queue.has_thread, true)) std::thread(RunQueue, std::ref(queue)).detach();
  queue.changed.notify_one();
}

bool WasUsed(const c10::Stream& stream) {
  StreamQueue& queue = TheWorld().queues[IndexOf(stream)];
  const std::lock_guard lock(queue.mutex);
  return queue.has_thread;
}

void ThrowError(int device) {
  StickyError& error = TheWorld().errors[static_cast<size_t>(device)];
  std::string text;
  {
    const std::lock_guard lock(error.mutex);
    if (!error.is_set.exchange(false)) return;
    text = std::exchange(error.text, {});
  }
  throw DeviceError(text + "\n  noticed by " + Doing::Operation() + ", " + Place().Text());
}

void HostHasWaited(int device, const VectorClock& clock) {
  {
    const auto lock = BookLock();
    TheWorld().host_clocks[static_cast<size_t>(device)].Join(clock);
    thread_clock.Join(clock);
    ReleasePending(device);
  }
  ThrowError(device);
}

[[noreturn]] void ThrowCapturedEvent() {
  throw DeviceError("an event that was recorded in a capture is used outside of it\n  " +
                    Place().Text());
}

QueuedPtr Enter(const c10::Stream& stream,
                const std::vector<Use>& uses,
                std::function<void()> function,
                uint64_t pool = 0) {
  auto queued = std::make_shared<Queued>(
      Queued{.operation = Doing::Operation(), .stream = IndexOf(stream), .pool = pool});
  const auto lock = BookLock();
  Capture* const capture = CaptureOf(queued->stream);
  Capture* const other = CaptureOn(stream.device_index());
  if (capture == nullptr && other != nullptr && other->thread == std::this_thread::get_id()) {
    other->Refuse(queued->operation + " is queued on " + StreamName(stream) +
                  ", which has not joined the capture");
  }
  VectorClock& clock = ClockOf(queued->stream);
  queued->time = ++clock.times[queued->stream];
  CheckUses(queued, clock, uses);
  if (capture != nullptr) {
    capture->Add(uses, std::move(function));
  } else {
    ++TheWorld().queued;
    Push(queued->stream, std::move(function));
  }
  return queued;
}

// Runs `kernel` with the queueing thread's number of threads, because bits depend on it.
std::function<void()> WithThreads(std::function<void()> kernel) {
  return [threads = at::get_num_threads(), kernel = std::move(kernel)] {
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
    kernel();
  };
}

}  // namespace

void Signal::Set() {
  time_ = std::chrono::steady_clock::now();
  done_ = true;
  done_.notify_all();
}

std::string StreamName(size_t index) {
  const size_t id = index % kStreamsPerDevice;
  return (id == 0 ? "the default stream" : "stream " + std::to_string(id)) + " of device " +
         std::to_string(index / kStreamsPerDevice);
}

std::string StreamName(const c10::Stream& stream) {
  return StreamName(IndexOf(stream));
}

size_t IndexOf(const c10::Stream& stream) {
  return static_cast<size_t>(stream.device_index()) * kStreamsPerDevice +
         static_cast<size_t>(stream.id());
}

int CurrentDevice() {
  return current_device;
}

void SetCurrentDevice(int device) {
  TORCH_CHECK(device >= 0 && device < kDevices, "simulated device ", device, " of ", kDevices,
              " does not exist");
  current_device = device;
}

c10::Stream CurrentStream(int device) {
  return c10::Stream(c10::Stream::UNSAFE, DeviceAt(device),
                     current_streams[static_cast<size_t>(device)]);
}

c10::Stream ExchangeStream(const c10::Stream& stream) {
  const c10::Stream before = CurrentStream(stream.device_index());
  current_streams[static_cast<size_t>(stream.device_index())] = stream.id();
  return before;
}

c10::Stream StreamFromPool(int device) {
  const int next = TheWorld().next_in_pool[static_cast<size_t>(device)]++;
  return c10::Stream(c10::Stream::UNSAFE, DeviceAt(device), 1 + next % (kStreamsPerDevice - 1));
}

QueuedPtr Queue(const c10::Stream& stream,
                const std::vector<Use>& uses,
                std::function<void()> kernel) {
  const int device = stream.device_index();
  const auto place = std::make_shared<const Place>();
  return Enter(stream, uses, WithThreads([=, operation = Doing::Operation()] {
                 if (TheWorld().errors[static_cast<size_t>(device)].is_set) return;
                 try {
                   kernel();
                 } catch (const std::exception& error) {
                   const auto* const torch = dynamic_cast<const c10::Error*>(&error);
                   ReportError(
                       device,
                       "asynchronous error of " + operation + " on " + StreamName(stream) +
                           ", queued by " + place->Text() + ":\n  " +
                           (torch == nullptr ? error.what() : torch->what_without_backtrace()));
                 }
               }));
}

void QueueAndFinish(const c10::Stream& stream,
                    const std::vector<Use>& uses,
                    std::function<void()> kernel) {
  RefuseInCapture(stream.device_index(), "what the simulation runs when it is called");
  const auto done = std::make_shared<Signal>();  // shared: its thread may use it after the wait
  std::exception_ptr error;
  Enter(stream, uses, WithThreads([&, done] {
          try {
            kernel();
          } catch (...) {
            error = std::current_exception();
          }
          done->Set();
        }));
  done->Wait();
  if (error != nullptr) std::rethrow_exception(error);
}

void QueueControl(const c10::Stream& stream, std::function<void()> function) {
  const auto lock = BookLock();
  Capture* const capture = CaptureOf(IndexOf(stream));
  if (capture != nullptr) return capture->functions.push_back(std::move(function));
  Push(IndexOf(stream), std::move(function));
}

void QueueReplay(const c10::Stream& stream,
                 const std::vector<Use>& uses,
                 uint64_t pool,
                 std::function<void()> function) {
  Enter(stream, uses, std::move(function), pool);
}

int64_t TakeQueued() {
  return TheWorld().queued.exchange(0);
}

void ReportError(int device, const std::string& text) {
  StickyError& error = TheWorld().errors[static_cast<size_t>(device)];
  const std::lock_guard lock(error.mutex);
  if (!error.is_set.exchange(true)) error.text = text;
}

void Record(Event& event, const c10::Stream& stream) {
  {
    const auto lock = BookLock();
    if (const Capture* const capture = CaptureOf(IndexOf(stream))) {
      event = {.signal = nullptr,
               .clock = TheWorld().clocks[IndexOf(stream)],
               .device = stream.device_index(),
               .capture = capture->id};
      return;
    }
  }
  RecordInQueue(event, stream);
}

void RecordInQueue(Event& event, const c10::Stream& stream) {
  const auto lock = BookLock();
  event.device = stream.device_index();
  event.stream = IndexOf(stream);
  event.clock = TheWorld().clocks[event.stream];
  event.signal = std::make_shared<Signal>();
  event.capture = 0;
  Push(IndexOf(stream), [signal = event.signal] { signal->Set(); });
}

void LetWait(const Event& event, const c10::Stream& stream) {
  if (event.signal == nullptr && event.capture == 0) return;
  const auto lock = BookLock();
  Capture* const capture = CaptureOf(IndexOf(stream));
  if (event.capture != 0) {
    Capture* const of_event = CaptureOn(event.device);
    if (of_event == nullptr || of_event->id != event.capture) ThrowCapturedEvent();
    of_event->Join(stream);
  } else if (capture != nullptr) {
    capture->Refuse(StreamName(stream) +
                    " waits for an event that was recorded outside of the "
                    "capture");
  }
  TheWorld().clocks[IndexOf(stream)].Join(event.clock);
  if (event.capture != 0) return;
  Push(IndexOf(stream), [signal = event.signal] { signal->Wait(); });
}

bool Query(const Event& event) {
  RefuseInCapture(event.device, "an event query");
  if (event.capture != 0) ThrowCapturedEvent();
  if (event.signal == nullptr) return true;
  if (!event.signal->IsSet()) return false;
  HostHasWaited(event.device, event.clock);
  return true;
}

void Synchronize(const Event& event) {
  if (event.capture != 0) ThrowCapturedEvent();
  if (event.signal == nullptr) return;
  event.signal->Wait();
  HostHasWaited(event.device, event.clock);
}

void Synchronize(const c10::Stream& stream) {
  Event event;
  Record(event, stream);
  Synchronize(event);
}

bool Query(const c10::Stream& stream) {
  RefuseInCapture(stream.device_index(), "a query of a stream");
  if (!WasUsed(stream)) return true;
  Event event;
  Record(event, stream);
  // Gives the stream's thread a chance to come to the event.
  for (int i = 0; i < 100 && !event.signal->IsSet(); ++i) std::this_thread::yield();
  return Query(event);
}

bool HasMoreBehind(const Event& event) {
  const auto lock = BookLock();
  return TheWorld().clocks[event.stream].times[event.stream] > event.clock.times[event.stream];
}

std::vector<Event> RecordAll(int device) {
  std::vector<Event> events;
  for (int id = 0; id < kStreamsPerDevice; ++id) {
    const c10::Stream stream(c10::Stream::UNSAFE, DeviceAt(device), id);
    if (WasUsed(stream)) RecordInQueue(events.emplace_back(), stream);
  }
  return events;
}

void SynchronizeDevice(int device) {
  const std::vector<Event> events = RecordAll(device);
  for (const Event& event : events) event.signal->Wait();
  for (const Event& event : events) HostHasWaited(device, event.clock);
}

std::unique_lock<std::mutex> BookLock() {
  return std::unique_lock(TheWorld().mutex);
}

VectorClock& ClockOf(size_t stream) {
  VectorClock& clock = TheWorld().clocks[stream];
  clock.Join(TheWorld().host_clocks[stream / kStreamsPerDevice]);
  clock.Join(thread_clock);
  return clock;
}

const VectorClock& HostClock(int device) {
  return TheWorld().host_clocks[static_cast<size_t>(device)];
}

}  // namespace ddprun::simulated
