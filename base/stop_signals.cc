#include "base/stop_signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

namespace ddprun {

namespace {

constexpr std::array kStopSignals = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT, kRejoinSignal};
// A terminal signals all its processes, and a wrapper script may pass the signal on: one request.
constexpr int64_t kSameRequestNs = 500'000'000;

// The handler writes them on any thread.
std::atomic<int> noted_signal = 0;
std::atomic<int64_t> noted_at_ns = 0;
bool ends_on_second = false;
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t SteadyNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Async-signal-safe.
void OnStopSignal(int signal) {
  int none = 0;
  if (noted_signal.compare_exchange_strong(none, signal)) {
    noted_at_ns = SteadyNs();
    return;
  }
  // A job that joins anew may be stopped meanwhile, and then it does not go on.
  int rejoin = kRejoinSignal;
  if (signal == rejoin || noted_signal.compare_exchange_strong(rejoin, signal)) return;
  if (!ends_on_second || SteadyNs() - noted_at_ns < kSameRequestNs) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when this handler returns
}

sigset_t StopSet() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : kStopSignals) ::sigaddset(&set, signal);
  return set;
}

// Handlers run on this thread alone. Matrix products of oneDNN let the stack pointer point into the
// heap meanwhile (seen with LibTorch 2.11), and Linux writes a handler's frame where it points.
void StartSignalThread() {
  static pid_t owner = 0;  // a forked process does not have its parent's threads
  if (owner == ::getpid()) return;
  owner = ::getpid();
  std::thread([] {
    const sigset_t set = StopSet();
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    while (true) ::pause();
  }).detach();
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSet();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void NoteStopSignals(const Environment& environment) {
  ends_on_second = !environment.Get("DDPRUN_JOB_ID") && !environment.Get("SLURM_JOB_ID");
  for (const int signal : kStopSignals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = OnStopSignal;
    action.sa_flags = SA_RESTART;
    action.sa_mask = StopSet();
    ::sigaction(signal, &action, nullptr);
  }
  BlockStopSignals();
  StartSignalThread();
}

int NotedStopSignal() {
  return noted_signal;
}

double SecondsSinceStopSignal() {
  const int64_t time_ns = noted_at_ns;  // 0 while the handler has not written it yet
  return time_ns == 0 ? 0 : static_cast<double>(SteadyNs() - time_ns) * 1e-9;
}

}  // namespace ddprun
