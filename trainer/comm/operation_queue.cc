#include "trainer/comm/operation_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/last_words.h"

namespace ddprun::trainer {

namespace {

using EntryPtr = std::shared_ptr<OperationQueue::Entry>;

Status RunCatching(const OperationQueue::Function& run) {
  try {
    return run();
  } catch (...) {
    return CurrentError();
  }
}

}  // namespace

struct OperationQueue::State {
  std::mutex turn;  // held while operations run: one at a time, in order
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<EntryPtr> entries;  // guarded by mutex
  bool stopping = false;         // guarded by mutex
  std::thread thread;            // guarded by mutex

  bool Empty() {
    const std::lock_guard lock(mutex);
    return entries.empty();
  }

  EntryPtr TakeFront() {
    const std::lock_guard lock(mutex);
    if (entries.empty()) return nullptr;
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
    if (!entry->on_done) return [] {};
    return [entry, call = std::move(entry->on_done)] { call(entry->status); };
  }

  // Runs the first entry, unless `done` is true by then.
  void RunFront(const std::atomic<bool>* done) {
    std::function<void()> afterwards;
    {
      const std::lock_guard lock(turn);
      if (done != nullptr && done->load(std::memory_order_acquire)) return;
      const EntryPtr entry = TakeFront();
      if (entry == nullptr) return;
      afterwards = Finish(entry, RunCatching(entry->run));
    }
    afterwards();  // without holding `turn`, because it may wait for other entries
  }

  void ThreadMain() {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return stopping || !entries.empty(); });
        if (stopping) return;
      }
      RunFront(nullptr);
    }
  }
};

OperationQueue::OperationQueue() : state_(std::make_shared<State>()) {}

OperationQueue::~OperationQueue() {
  std::thread thread;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    thread = std::move(state_->thread);
  }
  state_->changed.notify_all();
  if (thread.joinable()) {
    // An OnDone() call on this thread may have destroyed the last user of the queue.
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
  }
  while (const EntryPtr entry = state_->TakeFront()) {
    Error gone{.title = "COLLECTIVE CANCELLED",
               .what = "The process group was left before this operation had begun.",
               .hint = "Before you leave the group, wait for all operations that you started.",
               .page = "collective-cancelled"};
    state_->Finish(entry, std::move(gone))();
  }
}

EntryPtr OperationQueue::Submit(Function run) {
  auto entry = std::make_shared<Entry>();
  entry->run = std::move(run);
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->thread.joinable()) {
      state_->thread = std::thread([state = state_] { state->ThreadMain(); });
    }
    state_->entries.push_back(entry);
  }
  state_->changed.notify_one();
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
  while (!entry.done.load(std::memory_order_acquire)) state_->RunFront(&entry.done);
}

Status OperationQueue::RunNow(Function run) {
  if (const std::unique_lock turn(state_->turn, std::try_to_lock);
      turn.owns_lock() && state_->Empty()) {
    return RunCatching(run);
  }
  const auto entry = std::make_shared<Entry>();
  entry->run = std::move(run);
  {
    const std::lock_guard lock(state_->mutex);
    state_->entries.push_back(entry);  // no notify: Wait() runs it on this thread
  }
  Wait(*entry);
  return std::move(entry->status);
}

}  // namespace ddprun::trainer
