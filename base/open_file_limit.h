#pragma once

#include <sys/resource.h>

namespace ddprun {

// Raises the soft limit of open files to the hard limit, because ddprun holds descriptors of many
// workers and nodes. Children must not inherit that limit: it slows down or breaks programs that
// close every possible descriptor or use select().
class OpenFileLimit {
 public:
  OpenFileLimit() {
    ::getrlimit(RLIMIT_NOFILE, &original_);
    rlimit raised = original_;
    raised.rlim_cur = raised.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &raised);
  }
  ~OpenFileLimit() { Restore(); }
  OpenFileLimit(const OpenFileLimit&) = delete;
  OpenFileLimit& operator=(const OpenFileLimit&) = delete;

  // Restores the original limit. Async-signal-safe, for a child between fork and exec.
  void Restore() const { ::setrlimit(RLIMIT_NOFILE, &original_); }

 private:
  rlimit original_{};
};

}  // namespace ddprun
