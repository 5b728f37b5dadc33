#pragma once

#include <sys/resource.h>

namespace ddprun {

// Raises the soft limit of open files to the hard one: of those who hold a connection or
// descriptors of each of many workers. Children must not inherit that: programs that use select()
// or close every possible descriptor suffer from it.
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

  // What the destructor does; async-signal-safe, for a child between fork and exec.
  void Restore() const { ::setrlimit(RLIMIT_NOFILE, &original_); }

 private:
  rlimit original_{};
};

}  // namespace ddprun
