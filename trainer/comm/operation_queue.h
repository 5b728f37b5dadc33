// Runs operations in the background, one after the other, in the order of Submit(). A thread that
// waits for an operation runs due operations itself, which costs less than waking another.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "base/result.h"

namespace ddprun::trainer {

// Any thread may call any method. The first Submit() starts the background thread, so that a
// process may fork before it.
class OperationQueue {
 public:
  // An exception that it throws becomes the operation's status.
  using Function = std::function<Status()>;

  // One submitted operation. Each thread that waits for it keeps it alive.
  struct Entry {
    Function run;
    std::atomic<bool> done = false;
    Status status;                               // valid once done
    std::function<void(const Status&)> on_done;  // guarded by the queue's mutex
  };

  OperationQueue();
  // Waits for the running operation; later ones end with an error. The `call` of OnDone() may run
  // this destructor.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  std::shared_ptr<Entry> Submit(Function run);
  // Calls `call` once the entry is done: now, or later on the thread that runs it. `call` may wait
  // for other entries. Only one OnDone() per entry.
  void OnDone(Entry& entry, std::function<void(const Status&)> call);
  // Waits until the entry is done.
  void Wait(Entry& entry);
  // Waits until all earlier operations and `run` are done. This thread may run them itself.
  Status RunNow(Function run);

  // For the end of a Python program, while its lock can still be taken. Waits, at most `limit`,
  // until the queues of this process have no operations and their threads make no calls. From then
  // on these threads free and call nothing, and Submit() runs the operation itself.
  static void Settle(std::chrono::milliseconds limit);

 private:
  struct State;  // shared with the background thread

  const std::shared_ptr<State> state_;
};

}  // namespace ddprun::trainer
