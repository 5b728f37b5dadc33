// The worker template: a process that has loaded LibTorch and read the config once, from which the
// ranks of a node are forked in milliseconds. The agent (ddprun) asks for them over a socket.
//
// Messages are JSON, one per SOCK_SEQPACKET datagram:
//   template -> agent  {"ready": true}
//   agent -> template  {"fork": {"local_rank": 0, "env": {...}, "unset": [...]}}, one per worker,
//                      with four or five descriptors: stdin, stdout, stderr, the node's shared
//                      memory, the node's flight recorder
//   agent -> template  {"go": {"agent_pid": 123}}
//   template -> agent  {"pids": [...]}, in the order of the requests
//
// The workers become children of the agent, a child subreaper: they are forked by a process in
// between, which ends at once. So the agent waits for them as for its own children.
#pragma once

#include <functional>

#include "base/env.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

struct TemplateCallbacks {
  // Runs in the template, before a group is forked. A Failure ends the template.
  std::function<void(const Environment& first_worker)> check;
  // Runs in the forked worker, with its environment. Returns its exit status.
  std::function<int(const Environment& environment)> run;
};

// Serves until the agent closes the socket. Returns the exit status of this process, which may be a
// worker after a fork. REQUIRES: no other thread runs. Throws Failure.
int ServeTemplate(UniqueFd socket,
                  const Environment& environment,
                  const TemplateCallbacks& callbacks);

}  // namespace ddprun::trainer
