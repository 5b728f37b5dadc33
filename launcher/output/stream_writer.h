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

// The file description is shared with the user's shell, so it is neither made non-blocking nor
// written to when that would block: a paused terminal must not stop the loop from serving signals.
// Loop thread only.
class StreamWriter {
 public:
  // `fd` stays the caller's.
  StreamWriter(asio::io_context& io, int fd);

  // Text of `owner`. If the last text was another's and left its line unfinished, that line is
  // ended first; a progress bar on a terminal is erased instead, it will be drawn again.
  void Write(const void* owner, std::string_view bytes);
  // Whether what `owner` writes now continues the line that it left unfinished.
  bool ContinuesLineOf(const void* owner) const { return line_owner_ == owner; }
  // Forgets `owner`, which is going: no text continues its unfinished line.
  void Forget(const void* owner);
  // Writes the launcher's own lines. They begin on a new line, even if a worker's line is
  // unfinished.
  void WriteLines(std::string_view text);

  // Returns whether writers should pause. WhenRoom() calls `resume` when they may go on.
  bool IsFull() const { return queue_.size() > kFullBytes; }
  void WhenRoom(std::function<void()> resume) { waiting_.push_back(std::move(resume)); }
  // Ends a progress bar on a terminal, and calls `done` once everything has been written.
  void WhenEmpty(std::function<void()> done);
  // Returns whether the stream has lost its reader. Then text is dropped.
  bool closed() const { return closed_; }
  // Calls `lost` once, with the errno, when the stream loses its reader.
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
  // An epoll set with fd_ in it: it can be read when fd_ can be written to. Asio would make fd_
  // itself non-blocking.
  asio::posix::stream_descriptor writable_;
  std::string queue_;
  bool waiting_to_write_ = false;
  const void* line_owner_ = nullptr;  // of the unfinished line; nullptr: at the start of a line
  bool line_is_bar_ = false;          // it has gone back to its start with '\r'
  bool closed_ = false;
  std::vector<std::function<void()>> waiting_;
  std::function<void()> when_empty_;
  std::function<void(int)> lost_;
};

// Where a job's output goes: our standard streams, and files. When both are the same file, terminal
// or pipe, both have one writer, so that their lines do not mix either. Loop thread only.
class Console {
 public:
  // The descriptors stay the caller's.
  Console(asio::io_context& io, int out_fd, int err_fd);

  StreamWriter& out() { return out_ ? *out_ : err_; }
  StreamWriter& err() { return err_; }
  FileWriter& files() { return files_; }
  // Calls `done` once everything has been written.
  void WhenEmpty(std::function<void()> done);

 private:
  StreamWriter err_;
  std::optional<StreamWriter> out_;  // absent: the same as err_
  FileWriter files_;
};

}  // namespace ddprun::launcher
