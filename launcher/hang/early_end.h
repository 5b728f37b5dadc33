// Finds a worker that has ended with code 0 although others wait for it. Without this the others
// would wait until their own limits, because such an end looks like a success.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/flight_reader.h"
#include "launcher/hang/hang_watch.h"
#include "launcher/process/clock.h"
#include "launcher/store/store_waits.h"

namespace ddprun::launcher {

struct WorkerFlight {
  int rank = 0;
  int local_rank = 0;
  FlightSnapshot flight;
};

struct EarlyEnd {
  int local_rank = 0;   // of the worker that has ended
  uint64_t number = 0;  // of the collective in which others wait
  std::string left;     // "ranks 0 and 2 waiting for it in all_reduce 418 of step 57"
};

// Pure. Returns the first of `ended` that missed a collective of all ranks in which others wait.
std::optional<EarlyEnd> FindEarlyEnd(std::span<const WorkerFlight> ended,
                                     std::span<const WorkerFlight> living);

// Pure. Returns a line if every living worker has waited in the store for long: then only a worker
// that has ended could have set the keys. "" means no. For jobs on one node.
std::string DescribeEndWhileAllWait(std::span<const LiveWorker> ended,
                                    std::span<const LiveWorker> living,
                                    std::span<const StoreWait> waits);

// Looks at intervals after a worker has ended. Loop thread only. Destroying it ends the watch.
class EarlyEndWatch {
 public:
  struct Sources {
    std::function<std::vector<LiveWorker>()> living;  // an empty list ends the watch
    std::function<std::vector<LiveWorker>()> ended;   // with code 0, by rank
    // Empty if workers of other nodes may set the keys.
    std::function<std::vector<StoreWait>(std::span<const LiveWorker>)> store_waits = {};
    const FlightReader* flight = nullptr;  // outlives the watch
  };
  struct Handlers {
    std::function<void(const EarlyEnd&)> on_early_end;              // at most once
    std::function<void(const std::string& line)> on_all_wait = {};  // at most once
  };
  // `clock` outlives the watch.
  EarlyEndWatch(Clock& clock,
                Sources sources,
                Handlers handlers,
                std::chrono::milliseconds interval = std::chrono::seconds(1));

  // Begins to look, because a worker has ended with code 0.
  void Begin();
  // Ends the watch.
  void End() { alarm_.reset(); }

 private:
  void CheckLater();
  void Check();

  Clock& clock_;
  const Sources sources_;
  const Handlers handlers_;
  const std::chrono::milliseconds interval_;
  bool has_begun_ = false;
  int checks_ = 0;
  bool reported_waits_ = false;
  std::optional<EarlyEnd> last_;  // found by the last look
  Clock::Alarm alarm_;
};

}  // namespace ddprun::launcher
