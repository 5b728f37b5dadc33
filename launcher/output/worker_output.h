// Workers' standard error on its way to ours: whole lines, never mixed, nothing lost.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "base/unique_fd.h"
#include "launcher/output/line_buffer.h"

namespace ddprun::launcher {

// Our own standard error. Its file description is shared with the user's shell, so it is neither
// made non-blocking nor written to when that would block: a paused terminal must not stop the
// loop from serving signals. Loop thread only.
class StderrWriter {
 public:
  StderrWriter(asio::io_context& io, int fd) : fd_(fd), retry_(io) {}

  void Write(std::string_view bytes);
  // The launcher's own lines: they begin on a new line, whatever a worker has left unfinished.
  void WriteLines(std::string_view text);
  // Whether writers should pause; `resume` is called once they may go on.
  bool IsFull() const { return queue_.size() > kFullBytes; }
  void WhenRoom(std::function<void()> resume) { waiting_.push_back(std::move(resume)); }
  // Calls `done` once everything has been written.
  void WhenEmpty(std::function<void()> done);

 private:
  static constexpr size_t kFullBytes = 1 << 20;

  void Drain();

  int fd_;
  asio::steady_timer retry_;
  std::string queue_;
  bool retrying_ = false;
  bool at_line_start_ = true;
  bool closed_ = false;  // nobody reads it any more
  std::vector<std::function<void()>> waiting_;
  std::function<void()> when_empty_;
};

// One worker's stream. Loop thread only; `writer` must outlive it.
class WorkerStderr {
 public:
  static constexpr size_t kKeptLines = 20;

  WorkerStderr(asio::io_context& io, UniqueFd read_end, StderrWriter& writer);

  // Reads what is there without waiting, and passes on an unfinished line. For when the processes
  // that could write are gone.
  void Finish();
  std::vector<std::string> LastLines() const { return lines_.LastLines(); }

 private:
  void Read();
  // Takes what can be read now, unless `writer` is full and that matters; false at the end of the
  // stream.
  bool ReadAvailable(bool heed_full);
  void FlushLater();

  asio::posix::stream_descriptor pipe_;
  StderrWriter& writer_;
  LineBuffer lines_{kKeptLines};
  asio::steady_timer flush_;
  bool flush_pending_ = false;
};

}  // namespace ddprun::launcher
