#include "launcher/output/stream_writer.h"

#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <asio/error.hpp>

#include "base/unique_fd.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

StreamWriter::StreamWriter(asio::io_context& io, int fd)
    : fd_(fd), kind_(Kind::kOther), writable_(io) {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) kind_ = Kind::kFile;
  if (::isatty(fd) == 1) kind_ = Kind::kTerminal;
  UniqueFd watcher(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLOUT;
  // Fails for regular files, which never block.
  if (watcher.valid() && ::epoll_ctl(watcher.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    writable_.assign(watcher.release());
  }
}

void StreamWriter::Write(const void* owner, std::string_view bytes) {
  if (bytes.empty()) return;
  if (line_owner_ != nullptr && line_owner_ != owner) {
    Queue(line_is_bar_ && is_terminal() ? kEraseLine : "\n");
    line_is_bar_ = false;
  }
  const size_t line = bytes.find_last_of('\n') + 1;
  if (line > 0) line_is_bar_ = false;
  if (bytes.find('\r', line) != std::string_view::npos) line_is_bar_ = true;
  line_owner_ = line == bytes.size() ? nullptr : owner;
  Queue(bytes);
}

void StreamWriter::Forget(const void* owner) {
  if (line_owner_ == owner) line_owner_ = this;
}

void StreamWriter::WriteLines(std::string_view text) {
  if (text.empty()) return;
  if (std::exchange(line_owner_, nullptr) != nullptr) Queue("\n");
  line_is_bar_ = false;
  Queue(text);
}

void StreamWriter::Queue(std::string_view bytes) {
  if (closed_) return;
  queue_ += bytes;
  if (!waiting_to_write_) Drain();
}

void StreamWriter::WhenEmpty(std::function<void()> done) {
  // Otherwise the shell's prompt would overwrite the last progress bar.
  if (std::exchange(line_is_bar_, false) && is_terminal()) Queue("\n");
  when_empty_ = std::move(done);
  if (!waiting_to_write_) Drain();
}

// A pipe that poll() calls writable takes PIPE_BUF bytes without blocking.
bool StreamWriter::TakesBytes() const {
  if (kind_ == Kind::kFile) return true;
  pollfd out{fd_, POLLOUT, 0};
  return ::poll(&out, 1, 0) > 0;
}

void StreamWriter::Drain() {
  waiting_to_write_ = false;
  size_t sent = 0;
  while (sent < queue_.size() && TakesBytes()) {
    const size_t left = queue_.size() - sent;
    const size_t chunk = kind_ == Kind::kFile ? left : std::min<size_t>(PIPE_BUF, left);
    const ssize_t written = ::write(fd_, queue_.data() + sent, chunk);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written <= 0) {
      // A full disk may have room again. A reader does not come back.
      closed_ = kind_ != Kind::kFile;
      sent = queue_.size();
      if (const auto lost = std::exchange(lost_, nullptr)) lost(errno);
      break;
    }
    sent += static_cast<size_t>(written);
  }
  queue_.erase(0, sent);
  if (!IsFull()) {
    for (const auto& resume : std::exchange(waiting_, {})) resume();
  }
  // A resumed writer may have called Drain(), which now waits.
  if (waiting_to_write_) return;
  if (queue_.empty()) {
    if (when_empty_) std::exchange(when_empty_, nullptr)();
    return;
  }
  DrainLater();
}

void StreamWriter::DrainLater() {
  waiting_to_write_ = true;
  writable_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const asio::error_code& error) {
                         if (error != asio::error::operation_aborted) Drain();
                       });
}

namespace {

bool AreSame(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace

Console::Console(asio::io_context& io, int out_fd, int err_fd) : err_(io, err_fd), files_(io) {
  if (!AreSame(out_fd, err_fd)) out_.emplace(io, out_fd);
}

void Console::WhenEmpty(std::function<void()> done) {
  files_.WhenEmpty([this, done = std::move(done)] {
    if (!out_) return err_.WhenEmpty(done);
    out_->WhenEmpty([this, done] { err_.WhenEmpty(done); });
  });
}

}  // namespace ddprun::launcher
