#include "launcher/process/close_from.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace ddprun::launcher {
namespace {

constexpr int kFirst = 100;
constexpr int kLast = 400;  // more than one call reads from /proc/self/fd

// Makes close_range() fail as on a kernel that has none.
void ForgetCloseRange() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{.len = std::size(filter), .filter = filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ||
      ::syscall(SYS_close_range, kLast, kLast, 0) == 0) {
    ::_exit(70);
  }
}

// In a child: the flags of descriptors from kFirst on must be `expected` afterwards (-1: closed),
// those of the one below 0.
int FlagsAreWrong(bool old_kernel, When when, int expected) {
  for (int fd = kFirst - 1; fd <= kLast; ++fd) ::dup2(STDERR_FILENO, fd);
  if (old_kernel) ForgetCloseRange();
  CloseFrom(kFirst, when);
  if (::fcntl(kFirst - 1, F_GETFD) != 0) return 1;
  for (int fd = kFirst; fd <= kLast; ++fd) {
    if (::fcntl(fd, F_GETFD) != expected) return 2;
  }
  return 0;
}

TEST(CloseFrom, ClosesAllNowOrAtExecOnOldKernelsToo) {
  for (const bool old_kernel : {false, true}) {
    for (const auto& [when, expected] : {std::pair(When::kNow, -1), {When::kAtExec, FD_CLOEXEC}}) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(FlagsAreWrong(old_kernel, when, expected));
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0) << "old kernel: " << old_kernel << ", now: " << (when == When::kNow);
    }
  }
}

}  // namespace
}  // namespace ddprun::launcher
