#include "launcher/output/worker_output.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

namespace ddprun::launcher {

namespace {

// How long a prompt or another line without an end waits for more.
constexpr std::chrono::milliseconds kPartialLineDelay{100};
// How soon a blocked terminal or pipe is looked at again.
constexpr std::chrono::milliseconds kBlockedDelay{10};

// A pipe that poll() calls writable takes PIPE_BUF bytes without blocking.
bool TakesBytes(int fd) {
  pollfd out{fd, POLLOUT, 0};
  return ::poll(&out, 1, 0) > 0;
}

}  // namespace

void StderrWriter::Write(std::string_view bytes) {
  if (closed_ || bytes.empty()) return;
  queue_ += bytes;
  at_line_start_ = bytes.back() == '\n';
  if (!retrying_) Drain();
}

void StderrWriter::WriteLines(std::string_view text) {
  if (text.empty()) return;
  if (!at_line_start_) Write("\n");
  Write(text);
}

void StderrWriter::WhenEmpty(std::function<void()> done) {
  when_empty_ = std::move(done);
  if (!retrying_) Drain();
}

void StderrWriter::Drain() {
  retrying_ = false;
  size_t sent = 0;
  while (sent < queue_.size() && TakesBytes(fd_)) {
    const size_t chunk = std::min<size_t>(PIPE_BUF, queue_.size() - sent);
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

WorkerStderr::WorkerStderr(asio::io_context& io, UniqueFd read_end, StderrWriter& writer)
    : pipe_(io, read_end.release()), writer_(writer), flush_(io) {
  pipe_.non_blocking(true);
  Read();
}

void WorkerStderr::Read() {
  pipe_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this](const asio::error_code& error) {
                     if (error || !ReadAvailable(/*heed_full=*/true)) return;
                     if (writer_.IsFull()) {
                       writer_.WhenRoom([this] { Read(); });
                     } else {
                       Read();
                     }
                   });
}

bool WorkerStderr::ReadAvailable(bool heed_full) {
  std::array<char, 16 << 10> buffer;
  while (pipe_.is_open() && !(heed_full && writer_.IsFull())) {
    const ssize_t got = ::read(pipe_.native_handle(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    if (got == 0) {
      writer_.Write(lines_.TakePartial());
      pipe_.close();
      return false;
    }
    writer_.Write(lines_.Feed({buffer.data(), static_cast<size_t>(got)}));
  }
  if (lines_.has_partial()) FlushLater();
  return pipe_.is_open();
}

void WorkerStderr::FlushLater() {
  if (std::exchange(flush_pending_, true)) return;
  flush_.expires_after(kPartialLineDelay);
  flush_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    flush_pending_ = false;
    writer_.Write(lines_.TakePartial());
  });
}

void WorkerStderr::Finish() {
  ReadAvailable(/*heed_full=*/false);
  writer_.Write(lines_.TakePartial());
}

}  // namespace ddprun::launcher
