// The agent of one host, as this process sees it: an ssh with three pipes.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/env.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/hosts/hosts_plan.h"
#include "launcher/output/worker_stream.h"

namespace ddprun::launcher {

// Loop thread only. The host ends its agent when this object, or this process, ends.
class RemoteAgent {
 public:
  // All of them must outlive the agent.
  RemoteAgent(asio::io_context& io, Console& console, const HostStart& start)
      : io_(io), console_(console), start_(start), out_(io) {}

  // Starts the command, with this process's signal mask.
  Status Start(const Environment& env);
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
  void AwaitReady();
  void OnReady();

  asio::io_context& io_;
  Console& console_;
  const HostStart& start_;
  pid_t pid_ = -1;
  UniqueFd in_;
  asio::posix::stream_descriptor out_;  // until the host is ready
  UniqueFd err_;                        // the same
  std::string words_;
  std::shared_ptr<WorkerStream> out_stream_;
  std::shared_ptr<WorkerStream> err_stream_;
};

}  // namespace ddprun::launcher
