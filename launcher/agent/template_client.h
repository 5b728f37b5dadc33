// The agent's side of the worker template: one process that has loaded what the node's workers
// need, and forks them. The messages are one JSON datagram each on a SOCK_SEQPACKET socket:
//   template -> agent  {"ready":true}, {"pids":[...]} in local rank order
//   agent -> template  {"fork":{"local_rank":i,"env":{...},"unset":[...],"argv":[[k,word]...]}}
//                      with the descriptors [stdin, stdout, stderr, node memory] and, if there is
//                      one, the flight recorder, then {"go":{"agent_pid":P}}. "argv" has the words
//                      that differ from the template's command; k counts from its end, from 1 on.
//                      Variables and words are as CharactersOfBytes() returns them.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/env.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/process/process.h"

namespace ddprun::launcher {

// The variables to set and unset to turn one environment into another.
struct EnvironmentChange {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;
};
EnvironmentChange ChangeOf(const Environment& from, const Environment& to);

struct ForkOrder {
  int local_rank = 0;
  EnvironmentChange env;
  std::vector<std::pair<size_t, std::string>> argv = {};  // see the head of this file
  std::vector<int> fds = {};  // see the head of this file; borrowed until ForkWorkers() returns
};

// Use it on the loop thread only. Destroying it closes the socket, and then the template exits.
class TemplateClient {
 public:
  // Starts the template. `request` is its command; adds DDPRUN_TEMPLATE_FD to its environment.
  // Calls `on_ready` when the template has loaded everything and checked the config. If the
  // template exits before, only the ProcessHost reports it.
  static Result<std::unique_ptr<TemplateClient>> Start(asio::io_context& io,
                                                       ProcessHost& processes,
                                                       SpawnRequest request,
                                                       std::function<void()> on_ready);

  pid_t pid() const { return pid_; }
  // Forks workers and calls `done` with their pids in the order of `orders`, or with an Error if
  // the template is gone. REQUIRES: the template is ready; the previous call is done.
  void ForkWorkers(const std::vector<ForkOrder>& orders,
                   std::function<void(Result<std::vector<pid_t>>)> done);
  // Returns whether ForkWorkers() has not called `done` yet.
  bool forking() const { return forked_ != nullptr; }
  // Fails a ForkWorkers() that waits. Call it when the template's process has ended.
  void OnExit(const ProcessExit& exit);

 private:
  struct Message {
    std::string text;
    std::vector<UniqueFd> fds;
  };

  TemplateClient(asio::io_context& io, UniqueFd socket, pid_t pid, std::function<void()> on_ready);
  void Receive();
  void Handle(const std::string& text);
  void Send();
  void FailFork(const std::string& why);

  asio::posix::stream_descriptor socket_;
  pid_t pid_;
  std::function<void()> on_ready_;
  std::function<void(Result<std::vector<pid_t>>)> forked_;
  size_t expected_pids_ = 0;
  std::deque<Message> outgoing_;
};

}  // namespace ddprun::launcher
