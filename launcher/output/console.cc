#include "launcher/output/console.h"

#include <sys/stat.h>

#include <utility>

namespace ddprun::launcher {

namespace {

bool AreSame(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

Console::Console(asio::io_context& io, int out_fd, int err_fd) : err_(io, err_fd) {
  if (!AreSame(out_fd, err_fd)) out_.emplace(io, out_fd);
}

void Console::WhenEmpty(std::function<void()> done) {
  if (!out_) return err_.WhenEmpty(std::move(done));
  out_->WhenEmpty([this, done = std::move(done)] { err_.WhenEmpty(done); });
}

}  // namespace ddprun::launcher
