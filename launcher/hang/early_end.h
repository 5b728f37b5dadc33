// A worker that has ended with code 0 although others wait for it. To the launcher it has
// succeeded, so without this the others would wait until their own limits.
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
  int local_rank = 0;   // of the one that has ended
  uint64_t number = 0;  // of the collective that others wait in
  std::string left;     // "ranks 0 and 2 waiting for it in all_reduce 418 of step 57"
};

// Pure. Of `ended`, the first that has not come to a collective of all ranks in which some of
// `living` wait: it never will.
std::optional<EarlyEnd> FindEarlyEnd(std::span<const WorkerFlight> ended,
                                     std::span<const WorkerFlight> living);

// Pure. A line when every living worker waits in the store, so that only one that has ended could
// have set what they wait for; empty: some work, or have not waited for long. One node only.
std::string EndedWhileAllWait(std::span<const LiveWorker> ended,
                              std::span<const LiveWorker> living,
                              std::span<const StoreWait> waits);

// Looks now and then once a worker has ended. Loop thread only; destroying it ends the watch.
class EarlyEndWatch {
 public:
  struct Sources {
    std::function<std::vector<LiveWorker>()> living;  // none: the watch is over
    std::function<std::vector<LiveWorker>()> ended;   // with code 0, by rank
    // Empty when workers of other nodes may set what is waited for.
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

  // A worker has ended with code 0.
  void Begin();
  // It tells nothing any more.
  void End() { alarm_.reset(); }

 private:
  void LookLater();
  void Look();

  Clock& clock_;
  const Sources sources_;
  const Handlers handlers_;
  const std::chrono::milliseconds interval_;
  bool looking_ = false;
  int looks_ = 0;
  bool told_of_waits_ = false;
  std::optional<EarlyEnd> last_;  // what the look before has found
  Clock::Alarm alarm_;
};

}  // namespace ddprun::launcher
