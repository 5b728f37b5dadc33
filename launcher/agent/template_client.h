// The agent's side of the worker template: one process that has LibTorch loaded and forks the
// node's workers. The messages are one JSON datagram each on a SOCK_SEQPACKET socket:
//   template -> agent  {"ready":true}, {"pids":[...]} in local rank order
//   agent -> template  {"fork":{"local_rank":i,"env":{...},"unset":[...]}} with the descriptors
//                      [stdin, stdout, stderr, node memory] and, if there is one, the flight
//                      recorder, then {"go":{"agent_pid":P}}
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "base/env.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/process/process.h"

namespace ddprun::launcher {

// What turns environment `from` into `to`.
struct EnvironmentChange {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;
};
EnvironmentChange ChangeOf(const Environment& from, const Environment& to);

struct ForkOrder {
  int local_rank = 0;
  EnvironmentChange env;
  std::vector<int> fds = {};  // as above; borrowed until ForkWorkers returns
};

// Loop thread only. Destroying it closes the socket, on which the template exits.
class TemplateClient {
 public:
  // `request` is the template's command; DDPRUN_TEMPLATE_FD is added to its environment.
  static Result<std::unique_ptr<TemplateClient>> Start(asio::io_context& io,
                                                       ProcessHost& processes,
                                                       SpawnRequest request);

  pid_t pid() const { return pid_; }
  // Calls `ready` once it has loaded everything and checked the config. Never comes if it exits
  // before: the ProcessHost tells of that.
  void WhenReady(std::function<void()> ready);
  // Calls `done` with the pids in the order of `orders`, or with an Error when the template is
  // gone. REQUIRES: ready; the previous call is done.
  void ForkWorkers(const std::vector<ForkOrder>& orders,
                   std::function<void(Result<std::vector<pid_t>>)> done);
  // ForkWorkers() is under way.
  bool forking() const { return forked_ != nullptr; }
  // Tell it when the template's process has ended: a ForkWorkers() under way fails.
  void OnExit(const ProcessExit& exit);

 private:
  struct Message {
    std::string text;
    std::vector<UniqueFd> fds;
  };

  TemplateClient(asio::io_context& io, UniqueFd socket, pid_t pid);
  void Receive();
  void Take(const std::string& text);
  void Send();
  void Gone(const std::string& why);

  asio::posix::stream_descriptor socket_;
  pid_t pid_;
  bool is_ready_ = false;
  std::function<void()> ready_;
  std::function<void(Result<std::vector<pid_t>>)> forked_;
  size_t expected_pids_ = 0;
  std::deque<Message> outgoing_;
};

}  // namespace ddprun::launcher
