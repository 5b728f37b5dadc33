// Passes one worker's standard output or error on to ddprun's and to files. Lines of different
// workers do not mix, and nothing is lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "base/unique_fd.h"
#include "launcher/output/last_lines.h"
#include "launcher/output/lines.h"
#include "launcher/output/log_file.h"
#include "launcher/output/stream_writer.h"

namespace ddprun::launcher {

// The destinations. `console` and `filtered_log` must outlive the stream.
struct StreamSinks {
  StreamWriter* console = nullptr;  // nullptr means not shown
  std::string label = {};           // before each line that is shown
  // If the console is closed, the worker's writes fail, too, as they would without ddprun.
  bool ends_with_console = false;
  std::optional<LogFile> copy = {};
  LogFile* filtered_log = nullptr;
  std::optional<LineFilter> filter = {};
};

// Loop thread only. It may be destroyed at any time, because pending events hold no reference.
class WorkerStream : public std::enable_shared_from_this<WorkerStream> {
 public:
  static constexpr size_t kKeptLines = 20;

  // Reads a pipe or a Pty's `ours` as long as console and files have room.
  static std::shared_ptr<WorkerStream> Start(asio::io_context& io,
                                             UniqueFd read_end,
                                             StreamSinks sinks);
  ~WorkerStream();

  // If the stream reads a terminal, gives it the current size of the console.
  void FollowTerminal();
  // Reads the available bytes without waiting.
  void CatchUp();
  // Reads the rest, passes on an unfinished line and closes. Called when no process can write.
  void Finish();
  std::vector<std::string> LastLines() const;
  uint64_t bytes_seen() const { return bytes_seen_; }

 private:
  WorkerStream(asio::io_context& io, UniqueFd read_end, StreamSinks sinks);

  void Read();
  void OnReadable();
  void ReadAt(std::chrono::steady_clock::time_point time);
  // Reads about `limit` bytes without waiting, and returns how many. Calls End() at the end.
  size_t Take(size_t limit);
  void Pass(std::string_view bytes);
  void Show(std::string_view bytes);
  void End();
  // Shows an unfinished line when its worker has been quiet for a while.
  void ShowPartialLater();
  // Returns whether a destination is full; then Read() is called when it has room.
  bool ResumeWhenRoom();

  asio::posix::stream_descriptor source_;
  const bool is_terminal_;
  StreamSinks sinks_;
  LineBuffer lines_;
  LineLabel label_;
  Tail tail_;
  uint64_t bytes_seen_ = 0;
  asio::steady_timer pause_;
  asio::steady_timer quiet_;
  bool quiet_pending_ = false;
  bool is_bar_ = false;  // its unfinished line has a '\r'
  std::chrono::steady_clock::time_point last_read_;
  std::chrono::steady_clock::time_point next_read_;  // after a small piece
  bool steady_ = false;  // the worker writes small pieces, one soon after the other
};

}  // namespace ddprun::launcher
