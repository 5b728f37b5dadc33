// The agent of one host, as this process sees it: an ssh with three pipes.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/env.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/output/worker_stream.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

// RunOnHost() writes it before anything else: all before it comes from ssh and the login's shell.
inline constexpr std::string_view kReadyLine = "\nddprun is ready on this host\n";

// Loop thread only. The host ends its agent when this object, or this process, ends.
class RemoteAgent {
 public:
  // Starts `command`, whose first word is a path and which runs RunOnHost(), and gives it `orders`.
  // `io` and `console` must outlive the agent.
  static Result<std::unique_ptr<RemoteAgent>> Start(asio::io_context& io,
                                                    Console& console,
                                                    const SignalMask& mask,
                                                    const Environment& env,
                                                    const std::vector<std::string>& command,
                                                    const std::string& orders);

  // Passes a signal on to the agent. If the host is not ready yet, gives it up instead.
  void Signal(int signal);
  // Ends the command here, because the host does not answer.
  void GiveUp();
  // Returns the exit code once the command has ended, and shows the rest of its output.
  std::optional<int> TryEnd();
  // Returns whether ddprun has run on the host.
  bool ready() const { return out_stream_ != nullptr; }
  // Returns what the command has said if the host was never ready.
  const std::string& words() const { return words_; }

 private:
  RemoteAgent(
      asio::io_context& io, Console& console, pid_t pid, UniqueFd in, UniqueFd out, UniqueFd err);
  void Send(const std::string& bytes);
  void WriteMore();
  void AwaitReady();
  void ReadUntilReady();

  asio::io_context& io_;
  Console& console_;
  pid_t pid_;
  asio::posix::stream_descriptor in_;
  std::string unsent_;
  bool writing_ = false;
  asio::posix::stream_descriptor out_;  // until the host is ready
  UniqueFd err_;                        // the same
  std::string words_;
  std::shared_ptr<WorkerStream> out_stream_;
  std::shared_ptr<WorkerStream> err_stream_;
};

}  // namespace ddprun::launcher
