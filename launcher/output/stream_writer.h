// Writes to one of ddprun's standard streams and never blocks the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "launcher/output/file_writer.h"

namespace ddprun::launcher {

// Writes only if the write does not block, because a paused terminal must not stop the loop. Does
// not make the stream non-blocking, because the user's shell shares it. Loop thread only.
class StreamWriter {
 public:
  // The caller keeps `fd` open.
  StreamWriter(asio::io_context& io, int fd);

  // Writes text of `owner`. If another owner's line is unfinished, ends that line first, or erases
  // it if it is a progress bar on a terminal, because its owner draws it again.
  void Write(const void* owner, std::string_view bytes);
  // Returns whether text of `owner` would continue its own unfinished line.
  bool ContinuesLineOf(const void* owner) const { return line_owner_ == owner; }
  // Called when `owner` is destroyed: no later text continues its unfinished line.
  void Forget(const void* owner);
  // Writes the launcher's own lines. Ends a worker's unfinished line first.
  void WriteLines(std::string_view text);

  // Returns whether writers should pause. WhenRoom() calls `resume` when they may continue.
  bool IsFull() const { return queue_.size() > kFullBytes; }
  void WhenRoom(std::function<void()> resume) { waiting_.push_back(std::move(resume)); }
  // Ends a progress bar on a terminal, and calls `done` once everything has been written.
  void WhenEmpty(std::function<void()> done);
  // Returns whether the reader has ended. Then text is dropped.
  bool closed() const { return closed_; }
  // Calls `lost` with errno when a write fails for the first time. Of a file, whose disk is full,
  // only the text of that write is lost.
  void OnLost(std::function<void(int error)> lost) { lost_ = std::move(lost); }

  int fd() const { return fd_; }
  bool is_terminal() const { return kind_ == Kind::kTerminal; }

 private:
  enum class Kind { kFile, kTerminal, kOther };
  static constexpr size_t kFullBytes = 1 << 20;

  void Queue(std::string_view bytes);
  void Drain();
  void DrainLater();
  bool TakesBytes() const;

  int fd_;
  Kind kind_;
  // An epoll set that is readable when fd_ is writable, because Asio would make fd_ non-blocking.
  asio::posix::stream_descriptor writable_;
  std::string queue_;
  bool waiting_to_write_ = false;
  const void* line_owner_ = nullptr;  // of the unfinished line; nullptr means none
  bool line_is_bar_ = false;          // the unfinished line has a '\r'
  bool closed_ = false;
  std::vector<std::function<void()>> waiting_;
  std::function<void()> when_empty_;
  std::function<void(int)> lost_;
};

// The destinations of a job's output: ddprun's standard streams, and files. If both streams are the
// same file, terminal or pipe, they share a writer, so that lines do not mix. Loop thread only.
class Console {
 public:
  // The caller keeps the descriptors open.
  Console(asio::io_context& io, int out_fd, int err_fd);

  StreamWriter& out() { return out_ ? *out_ : err_; }
  StreamWriter& err() { return err_; }
  FileWriter& files() { return files_; }
  // Calls `done` once everything has been written.
  void WhenEmpty(std::function<void()> done);

 private:
  StreamWriter err_;
  std::optional<StreamWriter> out_;  // nullopt means that err_ is used
  FileWriter files_;
};

}  // namespace ddprun::launcher
