#include <csetjmp>
#include <csignal>
#include <cstring>

#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

// The place where this thread continues after a SIGBUS; nullptr outside CopyMapped().
thread_local sigjmp_buf* volatile t_back = nullptr;
struct sigaction g_previous = {};

void OnBusError(int signal, siginfo_t* info, void* context) {
  if (t_back != nullptr) ::siglongjmp(*t_back, 1);
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    // Restores the default action, which ends the process, because the access is repeated when the
    // handler returns.
    ::signal(signal, SIG_DFL);
  }
}

bool InstallHandler() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  // SA_NODEFER, because the handler ends with a jump that restores no signal mask.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  return ::sigaction(SIGBUS, &action, &g_previous) == 0;
}

}  // namespace

bool CopyMapped(void* to, const std::byte* from, size_t bytes) {
  static const bool installed = InstallHandler();
  (void)installed;
  sigjmp_buf back;
  // No object with a destructor exists between here and the jump.
  if (sigsetjmp(back, 0) != 0) {
    t_back = nullptr;
    return false;
  }
  t_back = &back;
  std::memcpy(to, from, bytes);
  t_back = nullptr;
  return true;
}

}  // namespace ddprun::trainer
