#include "tests/launcher/agent/simulated_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <asio/posix/stream_descriptor.hpp>

#include "base/env.h"
#include "base/last_words.h"
#include "base/unique_fd.h"
#include "launcher/agent/job_result.h"
#include "launcher/report/exit_text.h"

namespace ddprun::launcher {

namespace {

// The time that HangGuard gives workers to print their stacks.
constexpr milliseconds kDumpTime{5000};
constexpr int kRefusal = 2;

std::string Name(pid_t pid) {
  return "process " + std::to_string(pid);
}

}  // namespace

// The other end of TemplateClient's socket.
class SimulatedTemplate {
 public:
  SimulatedTemplate(World& world, SimulatedProcesses& processes, int socket, pid_t pid)
      : world_(world), processes_(processes), socket_(world.io, socket), pid_(pid) {
    const int trouble =
        world_.Chance(processes_.chances().template_trouble) ? world_.Pick(1, 5) : 0;
    dies_forking_ = trouble == 4;
    answers_wrong_ = trouble == 5;
    const milliseconds load = world_.Between(50, 500);
    world_.After(load, [this, trouble] {
      if (trouble == 1) return Die(Exited{kRefusal});
      if (trouble == 2) return Die(Signaled{SIGKILL});
      Send("{\"ready\":true}");
    });
    if (trouble == 3) {
      world_.After(load + world_.Between(0, 2000), [this] { Die(Signaled{SIGSEGV}); });
    }
    Receive();
  }

 private:
  void Send(const std::string& text) {
    if (!processes_.lives(pid_)) return;
    ::send(socket_.native_handle(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  void Die(const ProcessExit& exit) {
    if (!processes_.lives(pid_)) return;
    NoteTrouble();
    processes_.Die(pid_, exit);
  }
  void NoteTrouble() {
    world_.trouble = true;
    if (replaces_) world_.generations.back().start_failed = true;  // of one of many
  }
  void Receive() {
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const asio::error_code& error) {
                         if (!error) Take();
                       });
  }
  void Take() {
    char text[1 << 12];
    alignas(cmsghdr) char control[CMSG_SPACE(5 * sizeof(int))];
    iovec part{text, sizeof text};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const int flags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
    const ssize_t got = ::recvmsg(socket_.native_handle(), &header, flags);
    // An event may be that of a closed socket whose place in the reactor this one has.
    if (got < 0 && errno == EAGAIN) return Receive();
    if (got <= 0) return;
    const std::string_view message(text, static_cast<size_t>(got));
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&header)) {
      int fds[5];
      std::memcpy(fds, CMSG_DATA(rights), sizeof fds);
      for (const int fd : {fds[0], fds[1], fds[2], fds[3]}) ::close(fd);
      recorders_ = UniqueFd(fds[4]);
    }
    if (message.starts_with("{\"fork\"")) {
      replaces_ = message.find("\"DDPRUN_GENERATION\"") != message.npos;
      const std::string_view key = "\"local_rank\":";
      orders_.push_back(message[message.find(key) + key.size()] - '0');
    }
    if (message.starts_with("{\"go\"")) {
      world_.After(world_.Between(0, 500), [this] { ForkAll(); });
    }
    Receive();
  }
  void ForkAll() {
    if (!processes_.lives(pid_)) return;
    std::string pids;
    for (const int local_rank : std::exchange(orders_, {})) {
      const pid_t pid = processes_.Fork(local_rank, recorders_);
      pids += (pids.empty() ? "" : ",") + std::to_string(pid);
      // Somebody may kill it before the agent knows of it.
      if (!world_.Chance(5)) continue;
      world_.After(world_.Between(0, 200), [this, pid] { processes_.Die(pid, Signaled{SIGKILL}); });
    }
    if (dies_forking_) return Die(Signaled{SIGKILL});
    world_.After(world_.Between(0, 200), [this, pids] {
      if (answers_wrong_ && processes_.lives(pid_)) NoteTrouble();
      Send("{\"pids\":[" + (answers_wrong_ ? "" : pids) + "]}");
      replaces_ = false;
    });
  }

  World& world_;
  SimulatedProcesses& processes_;
  asio::posix::stream_descriptor socket_;
  const pid_t pid_;
  std::vector<int> orders_;  // local ranks
  UniqueFd recorders_;
  bool replaces_ = false;
  bool dies_forking_ = false;
  bool answers_wrong_ = false;
};

SimulatedProcesses::SimulatedProcesses(World& world,
                                       ProcessChances chances,
                                       milliseconds grace,
                                       bool saves)
    : world_(world), chances_(chances), grace_(grace), saves_(saves) {}

SimulatedProcesses::~SimulatedProcesses() = default;

Generation& SimulatedProcesses::GenerationOf(const Process& process) {
  return world_.generations[process.generation];
}

pid_t SimulatedProcesses::Add(Kind kind) {
  const pid_t pid = next_pid_++;
  Process& process = processes_[pid];
  process.kind = kind;
  process.generation = world_.generations.empty() ? 0 : world_.generations.size() - 1;
  process.unkillable = kind != Kind::kTemplate && world_.Chance(chances_.unkillable);
  return pid;
}

void SimulatedProcesses::CheckStart(bool of_worker) {
  if (world_.stop_signal) world_.Violate("a process is started after the stop");
  if (of_worker && world_.generations.back().ended) {
    world_.Violate("a process is started although the round has ended");
  }
}

Result<pid_t> SimulatedProcesses::Spawn(const SpawnRequest& request) {
  if (world_.Chance(chances_.start_failure)) {
    world_.trouble = true;
    if (!world_.generations.empty()) {
      world_.generations.back().start_failed = true;
      world_.After(milliseconds(1),
                   [this, at = world_.generations.size() - 1] { CheckRestIsTold(at); });
    }
    world_.Note("a process cannot be started");
    return SimulatedError(Code::kNotExecutable);
  }
  const std::string_view socket_variable = "DDPRUN_TEMPLATE_FD=";
  for (const std::string& entry : request.env) {
    if (!entry.starts_with(socket_variable)) continue;
    const pid_t pid = Add(Kind::kTemplate);
    processes_[pid].known = true;
    world_.Note(Name(pid) + " starts: the template");
    CheckStart(false);
    const auto fd = ParseInt(std::string_view(entry).substr(socket_variable.size()));
    templates_[pid] = std::make_unique<SimulatedTemplate>(
        world_, *this, ::fcntl(static_cast<int>(*fd), F_DUPFD_CLOEXEC, 3), pid);
    return pid;
  }
  CheckStart(true);
  const pid_t pid = Fork();
  processes_[pid].known = true;
  BeginLife(pid);
  return pid;
}

pid_t SimulatedProcesses::Fork() {
  const pid_t pid = Add(Kind::kWorker);
  for (const auto& [other, process] : processes_) {
    if (process.kind == Kind::kWorker && !process.exit && !process.unkillable &&
        process.generation != processes_[pid].generation) {
      world_.Violate(Name(pid) + " starts while " + Name(other) + " of an earlier round lives");
    }
  }
  world_.Note(Name(pid) + " starts");
  return pid;
}

pid_t SimulatedProcesses::Fork(int local_rank, const UniqueFd& recorders) {
  const pid_t pid = Fork();
  Process& process = processes_.at(pid);
  process.local_rank = local_rank;
  process.recorder = *FlightRecorder::Attach(recorders, local_rank, local_rank);
  if (world_.Chance(chances_.recovers)) {
    world_.After(world_.Between(0, 3000),
                 [this, at = process.generation] { SayThatTheyRecover(at); });
  }
  return pid;
}

// As workers that have done a step together.
void SimulatedProcesses::SayThatTheyRecover(size_t generation) {
  if (generation + 1 < world_.generations.size() || world_.stop_signal) return;
  std::map<int, Process*> newest;  // by local rank
  for (auto& [pid, process] : processes_) {
    if (process.generation != generation || process.recorder == nullptr) continue;
    newest[process.local_rank] = &process;
  }
  for (const auto& [rank, process] : newest) {
    if (process->exit) return;
  }
  for (const auto& [rank, process] : newest) {
    process->page_is_wrong = world_.Chance(chances_.wrong_pages);
    const int beyond = process->page_is_wrong ? 1000 : 0;
    process->recorder->SetRecoveryGeneration(world_.generations[generation].replaced + beyond);
  }
}

bool SimulatedProcesses::IsReplaced(const Process& process) const {
  if (process.recorder == nullptr) return false;
  const int before = world_.generations[process.generation].replaced;
  return process.recorder->IsLost(process.local_rank, before);
}

void SimulatedProcesses::OnReplaced(pid_t pid) {
  const Process& lost = processes_.at(pid);
  Generation& generation = GenerationOf(lost);
  ++generation.replaced;
  world_.Note(Name(pid) + " is to be replaced");
  const bool by_signal = std::holds_alternative<Signaled>(*lost.exit);
  if (!by_signal || lost.page_is_wrong || !chances_.may_replace || world_.stop_signal ||
      generation.ended || generation.told || generation.killing) {
    world_.Violate(Name(pid) + " is replaced, but it must not be");
  }
  world_.After(seconds(2), [this, pid, at = lost.generation] {
    const Process& before = processes_.at(pid);
    const Generation& later = world_.generations[at];
    if (later.told || later.killing || later.ended || world_.stop_signal || later.failed) return;
    for (auto next = processes_.upper_bound(pid); next != processes_.end(); ++next) {
      if (next->second.generation == at && next->second.local_rank == before.local_rank) return;
    }
    world_.Violate("nobody takes the place of " + Name(pid));
  });
}

void SimulatedProcesses::BeginLife(pid_t pid) {
  if (world_.Chance(15)) {
    world_.After(world_.Between(0, 5000), [this] { Add(Kind::kStray); });
  }
  processes_.at(pid).computes = world_.Chance(60);
  if (world_.Chance(20)) return;  // until somebody ends it
  ProcessExit exit = Exited{0};
  if (world_.Chance(35)) exit = Exited{world_.Pick(1, 9)};
  if (world_.Chance(10)) exit = Signaled{world_.Chance(50) ? SIGSEGV : SIGKILL};
  if (saves_ && world_.Chance(20)) exit = Exited{kStoppedStatus};
  const milliseconds time = world_.Chance(20) ? milliseconds(0) : world_.Between(0, 15'000);
  world_.After(time, [this, pid, exit] { Die(pid, exit); });
}

void SimulatedProcesses::ExpectAdoption(bool on) {
  if (on) CheckStart(true);
  expects_adoption_ = on;
}

Status SimulatedProcesses::Adopt(pid_t pid) {
  Process& process = processes_.at(pid);
  if (process.reaped) {
    world_.Violate(Name(pid) + " was reaped before it could be adopted");
    return SimulatedError(Code::kFailed);
  }
  process.known = true;
  process.known_since = world_.clock.Now();
  if (GenerationOf(process).killing || world_.stop_signal) {
    world_.After(milliseconds(0), [this, at = process.generation] { CheckRestIsTold(at); });
  }
  if (process.exit) {
    world_.After(milliseconds(0), [this, pid] { Deliver(pid); });
  } else {
    BeginLife(pid);
  }
  return {};
}

void SimulatedProcesses::Die(pid_t pid, const ProcessExit& exit) {
  Process& process = processes_.at(pid);
  if (process.exit || (process.suspended && !process.killed)) return;
  // The agent would wait with the next one, too; not with the template, which it is waiting for.
  if (chances_.may_replace && expects_adoption_ && process.kind == Kind::kWorker && process.known &&
      !process.killed && std::holds_alternative<Signaled>(exit)) {
    return world_.After(milliseconds(10), [this, pid, exit] { Die(pid, exit); });
  }
  process.exit = exit;
  world_.Note(Name(pid) + " ends with " + std::to_string(ExitCode(exit)));
  if (process.known) return Deliver(pid);
  process.reaped = !expects_adoption_;
}

void SimulatedProcesses::Deliver(pid_t pid) {
  Process& process = processes_.at(pid);
  process.reaped = true;
  const Generation before = process.kind == Kind::kWorker ? GenerationOf(process) : Generation();
  bool fails = false;
  if (process.kind == Kind::kWorker) {
    Generation& generation = GenerationOf(process);
    const int code = ExitCode(*process.exit);
    if (code != 0 && !generation.first_nonzero && std::holds_alternative<Exited>(*process.exit)) {
      generation.first_nonzero = code;
    }
    const bool well = IsSuccess(*process.exit, saves_);
    if (!well) generation.failed = true;
    if (!well && !generation.told && !generation.killing && !generation.failure_code) {
      fails = true;
      generation.failure_code = code;
      generation.failure_pid = pid;
      generation.failed_before_stop = !world_.stop_signal;
    }
  }
  if (handler_) handler_(pid, *process.exit);
  if (IsReplaced(process)) {
    GenerationOf(process) = before;
    OnReplaced(pid);
  } else if (fails) {
    world_.After(milliseconds(0), [this, at = process.generation] { CheckRestIsTold(at); });
  }
  if (process.kind == Kind::kWorker && !any_worker_lives(true) && !expects_adoption_) {
    world_.After(milliseconds(1), [this, at = process.generation] { CheckSweepFollows(at); });
  }
}

// The end of a group is no matter of its grace.
void SimulatedProcesses::CheckSweepFollows(size_t generation) {
  if (!unkillable_left() && !world_.generations[generation].swept) {
    world_.Violate("the last worker has ended, and nothing follows");
  }
}

void SimulatedProcesses::CheckHurry() {
  world_.After(milliseconds(0), [this] {
    for (const auto& [pid, process] : processes_) {
      const bool runs = process.known && process.kind == Kind::kWorker && !process.exit;
      if (runs && !process.killed) world_.Violate(Name(pid) + " is not killed in a hurry");
    }
  });
}

bool SimulatedProcesses::unkillable_left() const {
  return std::ranges::any_of(processes_,
                             [](const auto& p) { return !p.second.exit && p.second.unkillable; });
}

void SimulatedProcesses::CheckRestIsTold(size_t generation) {
  for (const auto& [pid, process] : processes_) {
    if (process.kind != Kind::kWorker || process.generation != generation) continue;
    if (process.known && !process.exit && !process.told_at && !process.killed) {
      world_.Violate(Name(pid) + " is not told to end although the others are to");
    }
  }
}

void SimulatedProcesses::Signal(pid_t pid, int signal) {
  const auto found = processes_.find(pid);
  if (found == processes_.end() || !found->second.known || found->second.exit) return;
  Process& process = found->second;
  world_.Note(Name(pid) + " gets signal " + std::to_string(signal));
  if (signal == SIGKILL) {
    CheckKill(process);
    process.killed = true;
    if (process.kind == Kind::kWorker) GenerationOf(process).killing = true;
    if (process.unkillable) return;
    return world_.After(world_.Between(0, 100), [this, pid] { Die(pid, Signaled{SIGKILL}); });
  }
  if (signal == SIGSTOP) process.suspended = true;
  if (signal == SIGCONT) {
    process.suspended = false;
    for (const int later : std::exchange(process.pending, {})) React(pid, later);
  }
  if (signal == SIGSTOP || signal == SIGCONT) return;
  // SIGUSR1 passes through, unless workers that save are stopped by it.
  if (signal != SIGUSR1 || (saves_ && world_.stop_signal == SIGUSR1)) OnTold(pid, signal);
  if (process.suspended) {
    process.pending.insert(signal);
  } else {
    React(pid, signal);
  }
}

void SimulatedProcesses::OnTold(pid_t pid, int signal) {
  Process& process = processes_.at(pid);
  if (process.kind != Kind::kWorker || process.told_at) return;
  Generation& generation = GenerationOf(process);
  generation.told = true;
  if (signal == SIGABRT && !generation.hung) {
    generation.hung = true;
    generation.failed_before_stop = !world_.stop_signal;
    if (any_worker_computes()) world_.Violate("workers that compute are said to hang");
  }
  process.computes = world_.Chance(50);
  process.told_at = world_.clock.Now();
  process.grace = signal == SIGABRT ? std::min(kDumpTime, grace_) : grace_;
  world_.After(process.grace + milliseconds(1), [this, pid] {
    const Process& late = processes_.at(pid);
    if (!late.exit && !late.killed) world_.Violate(Name(pid) + " lives on after its grace");
  });
}

void SimulatedProcesses::CheckKill(const Process& process) {
  if (process.kind != Kind::kWorker || process.killed || world_.hurried) return;
  const Generation& generation = GenerationOf(process);
  // One that saves would wait for the one that is gone, here or on another node.
  if (saves_ && (generation.failed || generation.ended)) return;
  if (!process.told_at) {
    // The grace may be over by the time when a worker has been forked.
    const bool late = process.known_since == world_.clock.Now();
    if (!late && !generation.killing && !generation.start_failed) {
      world_.Violate("killed without a word");
    }
    return;
  }
  if (world_.clock.Now() < *process.told_at + process.grace && !generation.start_failed) {
    world_.Violate("killed before its grace was over");
  }
}

// As most programs do: they end by it, some clean up first, some do not listen.
void SimulatedProcesses::React(pid_t pid, int signal) {
  if (signal == SIGUSR1 || world_.Chance(30)) return;
  ProcessExit exit = Signaled{signal};
  if (signal != SIGABRT && world_.Chance(30)) exit = Exited{world_.Chance(50) ? 0 : 10};
  if (signal != SIGABRT && saves_ && world_.Chance(70)) exit = Exited{StoppedCode(signal)};
  world_.After(world_.Between(0, 800), [this, pid, exit] { Die(pid, exit); });
}

void SimulatedProcesses::EndStrays(std::set<pid_t>,
                                   std::function<void(std::vector<pid_t> left)> done) {
  if (sweeping_) world_.Violate("two sweeps at a time");
  sweeping_ = true;
  if (any_worker_lives(true)) world_.Violate("a sweep while workers live");
  for (Generation& generation : world_.generations) generation.swept = true;
  std::vector<pid_t> strays;
  std::vector<pid_t> left;
  for (const auto& [pid, process] : processes_) {
    if (process.known || process.exit) continue;
    (process.unkillable ? left : strays).push_back(pid);
  }
  milliseconds time = strays.empty() ? milliseconds(0) : world_.Between(0, 350);
  if (!left.empty()) time = seconds(10);
  world_.After(time, [this, strays, left, done = std::move(done)] {
    sweeping_ = false;
    for (const pid_t pid : strays) Die(pid, Signaled{SIGKILL});
    done(left);
  });
}

bool SimulatedProcesses::any_worker_lives(bool known_only) const {
  return std::ranges::any_of(processes_, [known_only](const auto& p) {
    const Process& process = p.second;
    return process.kind == Kind::kWorker && !process.exit && !process.unkillable &&
           (process.known || !known_only);
  });
}

bool SimulatedProcesses::any_worker_computes() const {
  return std::ranges::any_of(processes_, [](const auto& p) {
    const Process& process = p.second;
    // One that no signal ends may be of a group before.
    return process.known && process.kind == Kind::kWorker && !process.exit && process.computes &&
           !process.suspended && !process.killed;
  });
}

std::map<pid_t, milliseconds> SimulatedProcesses::CpuTimes(
    std::span<const LiveWorker> workers) const {
  const auto now = world_.clock.Now().time_since_epoch();
  std::map<pid_t, milliseconds> times;
  for (const LiveWorker& worker : workers) {
    const Process& process = processes_.at(worker.pid);
    const bool computes = process.computes && !process.suspended;
    times[worker.pid] = computes ? std::chrono::duration_cast<milliseconds>(now) : milliseconds(0);
  }
  return times;
}

std::vector<pid_t> SimulatedProcesses::EndAll() {
  std::vector<pid_t> left;
  for (auto& [pid, process] : processes_) {
    if (process.exit) continue;
    if (process.unkillable) {
      left.push_back(pid);
    } else {
      process.exit = Signaled{SIGKILL};
    }
  }
  return left;
}

}  // namespace ddprun::launcher
