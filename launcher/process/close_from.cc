#include "launcher/process/close_from.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "base/unique_fd.h"

namespace ddprun::launcher {

void CloseFrom(int first, When when) {
  // The wheel that runs on old systems is built for a C library without a function for it.
  const unsigned flags = when == When::kAtExec ? CLOSE_RANGE_CLOEXEC : 0;
  if (::syscall(SYS_close_range, first, ~0U, flags) == 0) return;
  // A kernel before 5.9, or before 5.11 for the flag. readdir() would take memory.
  const UniqueFd folder(::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  alignas(dirent) char entries[2048];
  while (true) {
    const long size = ::syscall(SYS_getdents64, folder.get(), entries, sizeof entries);
    if (size <= 0) return;
    for (const char* at = entries; at < entries + size;) {
      const auto* const entry = reinterpret_cast<const dirent*>(at);
      at += entry->d_reclen;
      const int fd = std::atoi(entry->d_name);  // 0 for "." and ".."
      if (fd < first || fd == folder.get()) continue;
      if (when == When::kAtExec) {
        ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      } else {
        ::close(fd);
      }
    }
  }
}

}  // namespace ddprun::launcher
