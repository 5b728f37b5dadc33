#include "launcher/agent/restart_policy.h"

#include <algorithm>

namespace ddprun::launcher {

rendezvous::RoundEnd::Kind EndAfterFailure(int restart_count, int max_restarts) {
  using enum rendezvous::RoundEnd::Kind;
  return restart_count < max_restarts ? kRestart : kJobFailed;
}

std::chrono::milliseconds CrashLoop::PauseAfter(std::chrono::milliseconds lifetime) {
  constexpr std::chrono::milliseconds kFirstPause{250};
  constexpr int kMostDoublings = 4;
  if (lifetime >= kLongEnough) short_lives_ = 0;
  const int before = short_lives_++;
  if (before == 0) return std::chrono::milliseconds(0);
  return kFirstPause * (1 << std::min(before - 1, kMostDoublings));
}

}  // namespace ddprun::launcher
