// A disk on which the calls that change a file fail, one or more, in one way.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "tests/trainer/checkpoint/file_calls.h"

namespace ddprun::trainer {

// How calls fail, from the `from`-th on, and how many of them.
struct Fault {
  int error_number = 0;  // 0: a write writes, or a read reads, one byte less than asked
  int from = 0;
  int count = 1;
};

class FailingDisk final : public FileWatcher {
 public:
  // `reads`: calls that read a file fail, too.
  explicit FailingDisk(Fault fault, bool reads = false) : fault_(fault), reads_(reads) {}
  int Before(FileCall& call) override {
    const bool opens_to_read =
        call.kind == FileCall::Kind::kOpen && (call.flags & (O_WRONLY | O_CREAT)) == 0;
    if (!reads_ && (opens_to_read || call.changes_nothing())) return 0;
    const int number = calls_++;
    if (number < fault_.from || number >= fault_.from + fault_.count) return 0;
    if (fault_.error_number != 0) return fault_.error_number;
    if (call.bytes.size() > 1) call.bytes.remove_suffix(1);
    return 0;
  }
  void After(const FileCall&) override {}
  int calls() const { return calls_; }

 private:
  const Fault fault_;
  const bool reads_;
  std::atomic<int> calls_ = 0;
};

// Calls `run`, which does the same work on a disk with each of the faults and returns disk.calls().
template <typename Run>
void FailEachCall(int at_least, const Run& run) {
  const int calls = run(Fault{.count = 0});
  EXPECT_GT(calls, at_least);
  for (const int error_number : {0, ENOSPC, EIO, EINTR}) {
    for (int from = 0; from < calls; ++from) run(Fault{error_number, from});
  }
  for (int from = 0; from < calls; ++from) run(Fault{ENOSPC, from, 1'000'000});
}

}  // namespace ddprun::trainer
