// A disk on which the calls that change a file fail, one or more, in one way.
#pragma once

#include <fcntl.h>

#include <atomic>

#include "tests/trainer/checkpoint/file_calls.h"

namespace ddprun::trainer {

// How calls fail, from the `from`-th on, and how many of them.
struct Fault {
  int error_number = 0;  // 0 means that a write is short by one byte
  int from = 0;
  int count = 1;
};

class FailingDisk final : public FileWatcher {
 public:
  explicit FailingDisk(Fault fault) : fault_(fault) {}
  int Before(FileCall& call) override {
    if (call.kind == FileCall::Kind::kOpen && (call.flags & (O_WRONLY | O_CREAT)) == 0) return 0;
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
  std::atomic<int> calls_ = 0;
};

}  // namespace ddprun::trainer
