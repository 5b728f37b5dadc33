#include "launcher/output/stream_writer.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace ddprun::launcher {

namespace {

// How soon a blocked terminal or pipe is looked at again.
constexpr std::chrono::milliseconds kBlockedDelay{10};
constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

StreamWriter::StreamWriter(asio::io_context& io, int fd)
    : fd_(fd), kind_(Kind::kOther), retry_(io) {
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) kind_ = Kind::kFile;
  if (::isatty(fd) == 1) kind_ = Kind::kTerminal;
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
  if (!retrying_) Drain();
}

void StreamWriter::WhenEmpty(std::function<void()> done) {
  when_empty_ = std::move(done);
  if (!retrying_) Drain();
}

// A pipe that poll() calls writable takes PIPE_BUF bytes without blocking.
bool StreamWriter::TakesBytes() const {
  if (kind_ == Kind::kFile) return true;
  pollfd out{fd_, POLLOUT, 0};
  return ::poll(&out, 1, 0) > 0;
}

void StreamWriter::Drain() {
  retrying_ = false;
  size_t sent = 0;
  while (sent < queue_.size() && TakesBytes()) {
    const size_t left = queue_.size() - sent;
    const size_t chunk = kind_ == Kind::kFile ? left : std::min<size_t>(PIPE_BUF, left);
    const ssize_t written = ::write(fd_, queue_.data() + sent, chunk);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) break;
    if (written <= 0) {
      closed_ = true;
      sent = queue_.size();
      break;
    }
    sent += static_cast<size_t>(written);
  }
  queue_.erase(0, sent);
  if (!IsFull()) {
    for (const auto& resume : std::exchange(waiting_, {})) resume();
  }
  // A resumed writer may have queued, and drained, more.
  if (retrying_) return;
  if (queue_.empty()) {
    if (when_empty_) std::exchange(when_empty_, nullptr)();
    return;
  }
  retrying_ = true;
  retry_.expires_after(kBlockedDelay);
  retry_.async_wait([this](const asio::error_code& error) {
    if (!error) Drain();
  });
}

}  // namespace ddprun::launcher
