// Pure: whether a job goes on after a failure, and when.
#pragma once

#include <chrono>

#include "rendezvous/rendezvous.h"

namespace ddprun::launcher {

// What a node whose worker has failed asks of all nodes. `restart_count` is the job's, not the
// node's: max_restarts bounds all restarts together.
rendezvous::RoundEnd::Kind EndAfterFailure(int restart_count, int max_restarts);

// Keeps a job whose workers fail as soon as they have started from spinning: the first such
// restart is immediate, the next ones come after 0.25, 0.5, 1, 2 and then always 4 seconds. An
// attempt that lived long enough makes it forget.
class CrashLoop {
 public:
  static constexpr std::chrono::seconds kLongEnough{10};

  // How long to wait before the next attempt, after one that lived for `lifetime`.
  std::chrono::milliseconds PauseAfter(std::chrono::milliseconds lifetime);

 private:
  int short_lives_ = 0;
};

}  // namespace ddprun::launcher
