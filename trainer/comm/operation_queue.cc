#include "trainer/comm/operation_queue.h"

namespace ddprun::trainer {

OperationQueue::~OperationQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_) thread_->join();
}

std::shared_ptr<OperationQueue::Entry> OperationQueue::Submit(Function run) {
  auto entry = std::make_shared<Entry>();
  entry->run = std::move(run);
  {
    const std::lock_guard lock(mutex_);
    if (!thread_) thread_.emplace([this] { ThreadMain(); });
    entries_.push_back(entry);
  }
  changed_.notify_one();
  return entry;
}

void OperationQueue::OnDone(Entry& entry, std::function<void(const Status&)> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!entry.done.load(std::memory_order_acquire)) {
      entry.on_done = std::move(call);
      return;
    }
  }
  call(entry.status);
}

void OperationQueue::Wait(Entry& entry) {
  while (!entry.done.load(std::memory_order_acquire)) {
    const std::lock_guard turn(turn_);
    if (!entry.done.load(std::memory_order_acquire)) RunFront();
  }
}

Status OperationQueue::RunNow(const Function& run) {
  const std::lock_guard turn(turn_);
  while (RunFront()) {
  }
  return run();
}

// REQUIRES: the caller holds turn_. False when nothing was due.
bool OperationQueue::RunFront() {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    if (entries_.empty()) return false;
    entry = std::move(entries_.front());
    entries_.pop_front();
  }
  entry->status = entry->run();
  entry->run = nullptr;  // what it holds (tensors) is not needed any more
  std::function<void(const Status&)> on_done;
  {
    const std::lock_guard lock(mutex_);
    entry->done.store(true, std::memory_order_release);
    on_done = std::move(entry->on_done);
  }
  if (on_done) on_done(entry->status);
  return true;
}

void OperationQueue::ThreadMain() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !entries_.empty(); });
      if (stopping_) return;
    }
    const std::lock_guard turn(turn_);
    RunFront();
  }
}

}  // namespace ddprun::trainer
