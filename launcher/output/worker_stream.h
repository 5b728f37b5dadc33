// One worker's standard output or error on its way to ours and to files: whole lines, never mixed
// with others', nothing lost.
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

// Where the bytes go. `console` and `filtered_log` outlive the stream.
struct StreamSinks {
  StreamWriter* console = nullptr;  // nullptr: not shown
  std::string label = {};           // in front of each line shown
  // true: if the console loses its reader, the worker's writes fail, as they would without ddprun.
  bool ends_with_console = false;
  std::optional<LogFile> copy = {};
  LogFile* filtered_log = nullptr;
  std::optional<LineFilter> filter = {};
};

// Use it on the loop thread only. It may be destroyed at any time, because pending events hold no
// reference.
class WorkerStream : public std::enable_shared_from_this<WorkerStream> {
 public:
  static constexpr size_t kKeptLines = 20;

  // Reads a pipe or our end of a terminal as long as the console has room.
  static std::shared_ptr<WorkerStream> Start(asio::io_context& io,
                                             UniqueFd read_end,
                                             StreamSinks sinks);
  ~WorkerStream();

  // If the stream reads a terminal, gives it the current size of the console.
  void FollowTerminal();
  // Reads what is there without waiting.
  void CatchUp();
  // The same, and passes on an unfinished line. For when the processes
  // that could write are gone.
  void Finish();
  std::vector<std::string> LastLines() const;
  uint64_t bytes_seen() const { return bytes_seen_; }

 private:
  WorkerStream(asio::io_context& io, UniqueFd read_end, StreamSinks sinks);

  void Read();
  void ReadAfterPause();
  void OnReadable();
  // Takes up to `limit` bytes that can be read now; how many. Closes the stream at its end.
  size_t Take(size_t limit);
  void Pass(std::string_view bytes);
  void Show(std::string_view bytes);
  void End();
  // Shows an unfinished line once its worker has been quiet for a while.
  void ShowPartialLater();
  // Where its bytes go, takes no more for now; false: all of them do.
  bool ResumeWhenRoom();

  asio::posix::stream_descriptor source_;
  StreamSinks sinks_;
  LineBuffer lines_;
  LineLabel label_;
  Tail tail_;
  uint64_t bytes_seen_ = 0;
  asio::steady_timer pause_;
  asio::steady_timer quiet_;
  bool quiet_pending_ = false;
  bool is_bar_ = false;  // its unfinished line has gone back to its start with '\r'
  std::chrono::steady_clock::time_point last_read_;
};

}  // namespace ddprun::launcher
