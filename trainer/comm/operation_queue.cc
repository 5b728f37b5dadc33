#include "trainer/comm/operation_queue.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/last_words.h"
#include "base/step_phase.h"

namespace ddprun::trainer {

namespace {

using EntryPtr = std::shared_ptr<OperationQueue::Entry>;

// Threads that may stay idle beside each other: one serves while the other makes a call.
constexpr int kSpareThreads = 2;

// Operations that wait in a queue, and threads of queues that may have one in hand.
std::atomic<int> unsettled = 0;
std::atomic<bool> closed = false;  // by Settle()

// Keeps for ever what this thread holds. Python 3.14 does so with threads that ask for its lock
// after its end; earlier ones end such a thread.
[[noreturn]] void Rest() {
  --unsettled;
  for (;;) ::pause();
}

// A thread of a queue has one while it may run an operation, finish it or free it.
class AtWork {
 public:
  AtWork() {
    ++unsettled;
    if (closed) Rest();
  }
  ~AtWork() { --unsettled; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

// A child of fork() has no threads of its parent.
void ForgetThreadsInForkedChildren() {
  [[maybe_unused]] static const int once =
      ::pthread_atfork(nullptr, nullptr, [] { unsettled = 0; });
}

Status RunCatching(const OperationQueue::Function& run) {
  try {
    return run();
  } catch (...) {
    return CurrentError();
  }
}

}  // namespace

struct OperationQueue::State {
  std::mutex turn;  // held while operations run and are finished: one at a time, in order
  // Held while an operation is taken and runs. The destructor waits for it, not for `turn`: a
  // finished operation frees tensors, which may need Python's lock, and the thread that destroys
  // the queue may hold that lock.
  std::mutex running;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<EntryPtr> entries;  // guarded by mutex
  bool stopping = false;         // guarded by mutex
  int serving = 0;               // threads that serve and run no OnDone(); guarded by mutex

  bool Empty() {
    const std::lock_guard lock(mutex);
    return entries.empty();
  }

  // REQUIRES: mutex is held.
  void Add(EntryPtr entry) {
    ++unsettled;
    entries.push_back(std::move(entry));
  }

  EntryPtr TakeFront() {
    const std::lock_guard lock(mutex);
    if (entries.empty()) return nullptr;
    --unsettled;
    EntryPtr entry = std::move(entries.front());
    entries.pop_front();
    return entry;
  }

  // Marks the entry as done, so that waiting threads continue. Returns the call of its OnDone(),
  // for the caller to run.
  [[nodiscard]] std::function<void()> Finish(const EntryPtr& entry, Status status) {
    entry->status = std::move(status);
    entry->run = nullptr;  // frees its captures (tensors)
    const std::lock_guard lock(mutex);
    entry->done.store(true, std::memory_order_release);
    if (!entry->on_done) return nullptr;
    return [entry, call = std::move(entry->on_done)] { call(entry->status); };
  }

  // Runs the first entry, unless `done` is true by then. Returns the call of its OnDone(), which
  // the caller makes without `turn`, because the call may wait for other entries.
  [[nodiscard]] std::function<void()> RunFront(const std::atomic<bool>* done) {
    const std::lock_guard lock(turn);
    if (done != nullptr && done->load(std::memory_order_acquire)) return nullptr;
    EntryPtr entry;
    Status status;
    {
      const std::lock_guard in_use(running);
      entry = TakeFront();
      if (entry == nullptr) return nullptr;
      status = RunCatching(entry->run);
    }
    // Python's lock is not for this thread of the queue after Settle(), so the captures stay.
    if (done == nullptr && closed) static_cast<void>(new Function(std::move(entry->run)));
    return Finish(entry, std::move(status));
  }

  // REQUIRES: mutex is held. The threads are detached, because the call of an OnDone() may wait for
  // the thread that destroys the queue (for Python's lock).
  static void AddThread(const std::shared_ptr<State>& state) {
    std::thread([state] { state->ThreadMain(state); }).detach();
    ++state->serving;
  }

  // A thread that makes the call of an OnDone() does not serve, so another takes its place before:
  // the call may wait for entries in a way that the queue does not see, such as a future.
  void ThreadMain(const std::shared_ptr<State>& self) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || !entries.empty(); });
      if (stopping) return;
      lock.unlock();
      const bool away = ServeOne(self);
      lock.lock();
      if (!away) continue;
      if (serving >= kSpareThreads) return;
      ++serving;
    }
  }

  // Returns whether this thread has made a call, and so has stopped to serve.
  bool ServeOne(const std::shared_ptr<State>& self) {
    const AtWork at_work;
    const std::function<void()> afterwards = RunFront(nullptr);
    if (closed) Rest();
    if (afterwards == nullptr) return false;
    {
      const std::lock_guard lock(mutex);
      try {
        if (--serving == 0 && !stopping) AddThread(self);
      } catch (const std::system_error&) {  // no more threads: this one serves after the call
      }
    }
    afterwards();
    return true;
  }
};

OperationQueue::OperationQueue() : state_(std::make_shared<State>()) {
  ForgetThreadsInForkedChildren();
}

OperationQueue::~OperationQueue() {
  std::deque<EntryPtr> cancelled;  // taken at once, because the threads are not joined
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    cancelled.swap(state_->entries);
  }
  state_->changed.notify_all();
  { const std::lock_guard in_use(state_->running); }  // waits for the running operation
  for (const EntryPtr& entry : cancelled) {
    Error gone{.title = "COLLECTIVE CANCELLED",
               .what = "The process group was left before this operation had begun.",
               .hint = "Before you leave the group, wait for all operations that you started.",
               .page = "collective-cancelled"};
    if (const auto afterwards = state_->Finish(entry, std::move(gone))) afterwards();
    --unsettled;
  }
}

EntryPtr OperationQueue::Submit(Function run) {
  auto entry = std::make_shared<Entry>();
  entry->run = std::move(run);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->serving == 0) State::AddThread(state_);
    state_->Add(entry);
  }
  state_->changed.notify_one();
  if (closed) Wait(*entry);
  return entry;
}

void OperationQueue::OnDone(Entry& entry, std::function<void(const Status&)> call) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!entry.done.load(std::memory_order_acquire)) {
      entry.on_done = std::move(call);
      return;
    }
  }
  call(entry.status);
}

void OperationQueue::Wait(Entry& entry) {
  const WaitForRanks waits;
  while (!entry.done.load(std::memory_order_acquire)) {
    if (const auto afterwards = state_->RunFront(&entry.done)) afterwards();
  }
}

Status OperationQueue::RunNow(Function run) {
  const WaitForRanks waits;
  if (const std::unique_lock turn(state_->turn, std::try_to_lock);
      turn.owns_lock() && state_->Empty()) {
    const std::lock_guard in_use(state_->running);
    return RunCatching(run);
  }
  const auto entry = std::make_shared<Entry>();
  entry->run = std::move(run);
  {
    const std::lock_guard lock(state_->mutex);
    state_->Add(entry);  // no notify: Wait() runs it on this thread
  }
  Wait(*entry);
  return std::move(entry->status);
}

void OperationQueue::Settle(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto wait = [deadline] {
    while (unsettled > 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait();
  closed = true;
  wait();  // for a thread that has begun in between
}

}  // namespace ddprun::trainer
