// Runs operations one after the other, in the order in which they were submitted, in the
// background; a thread that waits for one helps itself and runs what is due, instead of waking
// another thread and waiting for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"

namespace ddprun::trainer {

// Any thread may call any method. The background thread is started by the first Submit(), so
// that a process may still fork before.
class OperationQueue {
 public:
  using Function = std::function<Status()>;

  // One submitted operation. Kept alive by whoever waits for it.
  struct Entry {
    Function run;
    std::atomic<bool> done = false;
    Status status;                               // valid once done
    std::function<void(const Status&)> on_done;  // guarded by the queue's mutex
  };

  ~OperationQueue();

  std::shared_ptr<Entry> Submit(Function run);
  // Calls `call` once the entry is done: now, or later from the thread that runs it. Once an entry.
  void OnDone(Entry& entry, std::function<void(const Status&)> call);
  // Returns when the entry is done.
  void Wait(Entry& entry);
  // Runs everything submitted before, then `run`, on this thread.
  Status RunNow(const Function& run);

 private:
  void ThreadMain();
  bool RunFront();

  std::mutex turn_;  // held while operations run: one at a time, in order
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> entries_;  // guarded by mutex_
  bool stopping_ = false;                       // guarded by mutex_
  std::optional<std::thread> thread_;           // guarded by mutex_
};

}  // namespace ddprun::trainer
