// How many files this process may have open: as many as the system lets it, its children as many
// as the user has set.
#pragma once

#include <sys/resource.h>

namespace ddprun::launcher {

// Raises the soft limit to the hard one: the store's host has a connection per worker of the whole
// job. Children must not inherit that: programs that use select() or close every possible
// descriptor suffer from it.
class OpenFileLimit {
 public:
  OpenFileLimit();
  ~OpenFileLimit() { Restore(); }
  OpenFileLimit(const OpenFileLimit&) = delete;
  OpenFileLimit& operator=(const OpenFileLimit&) = delete;

  // What the destructor does; async-signal-safe, for a child between fork and exec.
  void Restore() const { ::setrlimit(RLIMIT_NOFILE, &original_); }

 private:
  rlimit original_{};
};

}  // namespace ddprun::launcher
