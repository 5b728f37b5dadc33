#include "trainer/worker/template_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/byte_characters.h"
#include "base/cpus.h"
#include "base/failure.h"
#include "base/flight_recorder.h"
#include "base/open_file_limit.h"
#include "base/stop_signals.h"
#include "base/untrusted_json.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

constexpr size_t kMaxMessageBytes = size_t{64} << 10;
constexpr size_t kDescriptors = 5;  // stdin, stdout, stderr, node memory, flight recorder
constexpr size_t kNeededDescriptors = 4;

struct Request {
  Environment environment;
  std::array<UniqueFd, kDescriptors> descriptors;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

[[noreturn]] void ThrowSystemError(const std::string& what) {
  throw Failure(SystemError("The worker template was " + what, errno));
}

Pipe MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) ThrowSystemError("making a pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void Send(const UniqueFd& socket, const json& message) {
  const std::string text = message.dump();
  ssize_t sent = 0;
  do {
    sent = send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  // A closed socket is seen by the next Receive(), which ends the template.
}

struct Message {
  json body;
  std::vector<UniqueFd> descriptors;
};

// Returns nullopt if the agent has closed its end.
std::optional<Message> Receive(const UniqueFd& socket) {
  std::string buffer(kMaxMessageBytes, '\0');
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptors * sizeof(int))];
  iovec data{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t received = 0;
  do {
    received = recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && errno != ECONNRESET) ThrowSystemError("reading from ddprun");
  if (received <= 0) return std::nullopt;
  if ((header.msg_flags & MSG_CTRUNC) != 0) {
    errno = EMFILE;
    ThrowSystemError("taking the workers' descriptors, five each, from ddprun");
  }
  Message message;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      message.descriptors.emplace_back(fd);
    }
  }
  buffer.resize(static_cast<size_t>(received));
  message.body = ParseUntrustedJson(buffer);
  return message;
}

[[noreturn]] void ThrowBadMessage(const json& body) {
  throw Failure(
      Error{.title = "BAD MESSAGE",
            .where = "worker template",
            .what = "ddprun sent a message that this ddp-trainer does not know: " + body.dump(),
            .hint = "ddprun and ddp-trainer must be of the same version.",
            .page = "bad-message"});
}

Request ReadRequest(Message message, const Environment& base) {
  const json& fork = message.body["fork"];
  if (message.descriptors.size() < kNeededDescriptors || !fork.is_object() ||
      !fork.value("env", json()).is_object()) {
    ThrowBadMessage(message.body);
  }
  Request request{base, {}};
  for (const json& name : fork.value("unset", json::array())) {
    request.environment.Unset(BytesOfCharacters(name.get<std::string>()));
  }
  for (const auto& [name, value] : fork["env"].items()) {
    request.environment.Set(BytesOfCharacters(name), BytesOfCharacters(value.get<std::string>()));
  }
  for (size_t i = 0; i < std::min(kDescriptors, message.descriptors.size()); ++i) {
    request.descriptors[i] = std::move(message.descriptors[i]);
  }
  return request;
}

// Returns the number of bytes read before the end of file, at most `count`.
size_t ReadBytes(const UniqueFd& pipe, size_t count) {
  size_t total = 0;
  char byte = 0;
  while (total < count) {
    const ssize_t got = read(pipe.get(), &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    ++total;
  }
  return total;
}

// Replaces the standard streams, and then the process's own environment, which libraries read.
void TakeOver(Request& request) {
  for (int fd = 0; fd < 3; ++fd) dup2(request.descriptors[static_cast<size_t>(fd)].get(), fd);
  for (size_t i = 0; i < 3; ++i) request.descriptors[i].reset();
  // The agent's numbers of the descriptors become those here. A worker whose host has several
  // agents has no memory of its agent.
  if (request.environment.Get("DDPRUN_NODE_MEMORY_FD")) {
    request.environment.Set("DDPRUN_NODE_MEMORY_FD", std::to_string(request.descriptors[3].get()));
  }
  if (const auto cpus = request.environment.Get("DDPRUN_CPUS")) {
    ThrowIfError(StayOnCpus(ParseCpuList(*cpus)));
  }
  if (request.descriptors[4].valid()) {
    request.environment.Set(kFlightRecorderVariable, std::to_string(request.descriptors[4].get()));
  }
  clearenv();
  for (const std::string& entry : request.environment.Entries()) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
}

// Runs the worker's first steps, until it is the agent's child.
void BecomeWorker(Request& request, Pipe& gate, Pipe& sessions, pid_t agent) {
  setsid();
  WriteBytes(sessions.write.get(), std::string_view("\0", 1));
  sessions = {};
  gate.write.reset();
  ReadBytes(gate.read, 1);  // returns at the end of file: the gate opens by being closed
  gate = {};
  // From now on the agent is the parent, and its death ends this process. If the agent died
  // earlier, or the template was killed and so the gate opened too early, no process would watch
  // this one.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) _exit(1);
  TakeOver(request);
}

// Runs in the process in between: forks the workers, sends the agent their pids, and ends. In a
// worker, returns the index of its request.
size_t ForkWorkers(std::vector<Request>& requests,
                   const UniqueFd& socket,
                   Pipe& gate,
                   Pipe& sessions,
                   pid_t agent) {
  // The agent may signal workers as soon as it knows of them.
  BlockStopSignals();
  json pids = json::array();
  for (size_t i = 0; i < requests.size(); ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      BecomeWorker(requests[i], gate, sessions, agent);
      return i;
    }
    if (pid < 0) _exit(1);  // the workers forked so far see no agent as parent, and end
    pids.push_back(pid);
  }
  // The agent signals process groups: it must not learn of a worker that has none yet.
  sessions.write.reset();
  ReadBytes(sessions.read, requests.size());
  Send(socket, json{{"pids", pids}});
  _exit(0);
}

// In the template, returns nullopt when the workers run. In a worker, returns its request.
std::optional<Request> ForkGroup(std::vector<Request> requests, UniqueFd& socket, pid_t agent) {
  Pipe gate = MakePipe();
  Pipe sessions = MakePipe();
  const pid_t between = fork();
  if (between < 0) ThrowSystemError("forking workers");
  if (between == 0) {
    const size_t index = ForkWorkers(requests, socket, gate, sessions, agent);
    socket.reset();
    return std::move(requests[index]);
  }
  int status = 0;
  while (waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    errno = EAGAIN;
    ThrowSystemError("forking workers");
  }
  return std::nullopt;  // gate and sessions close here, and the workers continue
}

}  // namespace

int ServeTemplate(UniqueFd socket,
                  const Environment& environment,
                  const TemplateCallbacks& callbacks) {
  // An agent that dies must not leave the template behind.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The descriptors of all workers are here at once.
  const OpenFileLimit limit;
  Send(socket, json{{"ready", true}});
  std::vector<Request> requests;
  while (std::optional<Message> message = Receive(socket)) {
    if (!message->body.is_object()) ThrowBadMessage(message->body);
    if (message->body.contains("fork")) {
      requests.push_back(ReadRequest(*std::move(message), environment));
      continue;
    }
    if (!message->body.contains("go") || requests.empty()) ThrowBadMessage(message->body);
    callbacks.check(requests[0].environment);
    const pid_t agent = message->body["go"].value("agent_pid", pid_t{0});
    std::optional<Request> worker = ForkGroup(std::move(requests), socket, agent);
    if (worker) {
      limit.Restore();
      return callbacks.run(worker->environment);
    }
    requests.clear();
  }
  return 0;
}

}  // namespace ddprun::trainer
