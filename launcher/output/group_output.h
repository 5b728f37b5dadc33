// The standard output and error of one attempt's workers on this node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/output/log_file.h"
#include "launcher/output/stream_plan.h"
#include "launcher/output/stream_writer.h"
#include "launcher/output/worker_stream.h"

namespace ddprun::launcher {

// A worker's descriptors; invalid means ddprun's own stream. Closed when the worker has them.
struct WorkerFds {
  UniqueFd out;
  UniqueFd err;
};

// Use it on the loop thread only. `console` must outlive it.
class GroupOutput {
 public:
  // `warn` gets a line when a log file cannot be written to.
  GroupOutput(asio::io_context& io, Console& console, GroupOutputPlan plan, LogFile::Warn warn);

  // Opens a worker's output. Call it once for each local rank, in their order. Returns an error if
  // a file, pipe or terminal cannot be opened.
  Result<WorkerFds> Open(int local_rank);
  // Gives the workers' terminals the current size of ddprun's terminal.
  void FollowTerminal();
  // Reads the rest of the output without waiting. Call it when the workers are gone.
  void Finish();

  // Reads what a rank has written to its standard error so far, for its last lines.
  void CatchUp(int local_rank);
  // Returns the last lines of a rank's standard error. REQUIRES: Open() was called for the rank.
  std::vector<std::string> LastErrorLines(int local_rank) const;
  // Return the file with a rank's standard error ("" means none), and whether the user sees it.
  const std::string& error_log(int local_rank) const;
  bool shows_errors(int local_rank) const;
  // Returns the bytes that a rank has written so far, without those that the worker writes to
  // ddprun's own stream itself.
  uint64_t bytes_seen(int local_rank) const;

 private:
  struct Stream {
    std::shared_ptr<WorkerStream> worker_stream;
    std::string file;  // written by the worker itself; "" means none
  };
  struct Worker {
    Stream out;
    Stream err;
  };

  // One of standard output and standard error.
  struct Side {
    StreamWriter& console;
    const FilteredLogPlan& filtered;
    std::optional<LogFile>& filtered_log;
    bool ends_with_console;
  };

  Result<UniqueFd> OpenStream(const StreamPlan& plan, const Side& side, Stream& stream);
  Result<StreamSinks> MakeSinks(const StreamPlan& plan, const Side& side);
  Status OpenFilteredLogs();

  asio::io_context& io_;
  Console& console_;
  GroupOutputPlan plan_;
  LogFile::Warn warn_;
  std::optional<LogFile> filtered_out_;
  std::optional<LogFile> filtered_err_;
  std::vector<Worker> workers_;
};

}  // namespace ddprun::launcher
