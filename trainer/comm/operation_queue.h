// Runs operations one after the other, in the order in which they were submitted, in the
// background; a thread that waits for one helps itself and runs what is due, instead of waking
// another thread and waiting for it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/result.h"

namespace ddprun::trainer {

// Any thread may call any method. The background thread is started by the first Submit(), so
// that a process may still fork before.
class OperationQueue {
 public:
  // What it throws becomes the operation's status.
  using Function = std::function<Status()>;

  // One submitted operation. Kept alive by whoever waits for it.
  struct Entry {
    Function run;
    std::atomic<bool> done = false;
    Status status;                               // valid once done
    std::function<void(const Status&)> on_done;  // guarded by the queue's mutex
  };

  OperationQueue();
  // Waits for the operation that is running; those whose turn has not come end with an error. May
  // be called from OnDone's `call`.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  std::shared_ptr<Entry> Submit(Function run);
  // Calls `call` once the entry is done: now, or later from the thread that runs it. Once an entry.
  // It may wait for other entries.
  void OnDone(Entry& entry, std::function<void(const Status&)> call);
  // Returns when the entry is done.
  void Wait(Entry& entry);
  // Runs everything submitted before, then `run`, on this thread or while it waits.
  Status RunNow(Function run);

 private:
  struct State;  // shared with the background thread

  const std::shared_ptr<State> state_;
};

}  // namespace ddprun::trainer
