#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <ddprun/error.h>
#include "base/log.h"
#include "base/signal_name.h"
#include "base/terminal.h"
#include "base/text.h"
#include "launcher/cli/command_line.h"
#include "launcher/cli/read_value.h"
#include "launcher/cli/target.h"
#include "launcher/cluster/cluster.h"
#include "launcher/hosts/hosts.h"
#include "launcher/hosts/hosts_plan.h"
#include "launcher/output/worker_stream.h"
#include "launcher/process/clock.h"
#include "launcher/process/program_output.h"
#include "launcher/process/signals.h"

namespace ddprun::launcher {

namespace {

using std::chrono::seconds;

// An agent that has failed tells the others, which then end by themselves; this is for an agent
// that has failed before it met them.
constexpr seconds kAfterFailure{5};
// The further stop signal that ends what does not answer. One request may come as two signals.
constexpr int kGivesUp = 3;
constexpr int kSshFailed = 255;

Error NoAgent(const std::string& host, int code, std::string words) {
  std::erase(words, '\r');
  const std::string said(TrimBlanks(MakePrintable(words)));
  return Error{.code = Code::kRendezvous,
               .title = "NO AGENT ON HOST",
               .where = host,
               .what = "ddprun could not be started on " + host + " (exit status " +
                       std::to_string(code) + ")" + (said.empty() ? "." : ":\n" + said),
               .hint = code == kSshFailed
                           ? "This must work without a question: ssh " + host + " true"
                           : "Each host needs ddprun in the same folder: " + ProgramFolder(),
               .page = "no-agent-on-host"};
}

// Appends what the pipe has now. Returns false at its end.
bool ReadMore(int fd, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EAGAIN);
}

// The agent of one host, as this process sees it: an ssh with three pipes. The host ends its agent
// when this object, or this process, ends.
class RemoteAgent {
 public:
  // All of them must outlive the agent.
  RemoteAgent(asio::io_context& io, Console& console, const HostStart& start)
      : io_(io), console_(console), start_(start), in_(io), out_(io) {}

  // Starts the command, with this process's signal mask.
  Status Start(const Environment& env) {
    std::array<UniqueFd, 3> ours;
    std::array<UniqueFd, 3> theirs;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; ++fd) {
      int ends[2] = {-1, -1};
      if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
      const int own_end = fd == STDIN_FILENO ? 1 : 0;
      ours[fd].reset(ends[own_end]);
      theirs[fd].reset(ends[1 - own_end]);
      ::posix_spawn_file_actions_adddup2(&actions, theirs[fd].get(), fd);
    }
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    // Ctrl-C does not reach another session, and ssh in it asks nothing.
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    const std::vector<std::string>& command = start_.command;
    const std::vector<std::string> entries = env.Entries();
    const int error = ::posix_spawn(&pid_, command[0].c_str(), &actions, &attributes,
                                    CStrings(command).data(), CStrings(entries).data());
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return SystemError("starting " + command[0], error);
    in_.assign(ours[0].release());
    in_.non_blocking(true);
    out_.assign(ours[1].release());
    out_.non_blocking(true);
    err_ = std::move(ours[2]);
    ::fcntl(err_.get(), F_SETFL, O_NONBLOCK);
    AwaitReady();
    return {};
  }

  // Passes a signal on to the agent, if the host is ready.
  void Signal(int signal) {
    if (ready()) Write(std::string(1, static_cast<char>(signal)));
  }

  // Passes on a stop signal. If the host has not read its orders yet, gives it up instead.
  void Stop(int signal) { ready() && unwritten_.empty() ? Signal(signal) : GiveUp(); }

  // Ends the command here, because the host does not answer.
  void GiveUp() {
    if (pid_ > 0) ::kill(pid_, SIGTERM);
  }

  // Returns the exit code once the command has ended, and shows the rest of its output.
  std::optional<int> TryEnd() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    if (ready()) {
      out_stream_->Finish();
      err_stream_->Finish();
    } else {
      ReadMore(out_.native_handle(), words_);
      ReadMore(err_.get(), words_);
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    killed_by_ = WTERMSIG(status);
    return 128 + killed_by_;
  }

  // Returns the signal that has killed the command; 0 means none.
  int killed_by() const { return killed_by_; }

  // Returns whether ddprun has run on the host.
  bool ready() const { return out_stream_ != nullptr; }
  // Returns what the command has said if the host was never ready.
  const std::string& words() const { return words_; }

 private:
  void AwaitReady() {
    out_.async_wait(out_.wait_read, [this](const asio::error_code& error) {
      if (error || !ReadMore(out_.native_handle(), words_)) return;
      if (!words_.ends_with(kReadyLine)) return AwaitReady();
      out_stream_ = WorkerStream::Start(io_, UniqueFd(out_.release()), {&console_.out()});
      err_stream_ = WorkerStream::Start(io_, std::move(err_), {&console_.err()});
      // The host reads them now. Before that it writes nothing behind the line.
      Write(start_.orders);
    });
  }

  void Write(const std::string& bytes) {
    unwritten_ += bytes;
    if (unwritten_.size() == bytes.size()) WriteMore();  // else it waits already
  }

  // Never waits for a host that does not read: the loop has to see signals meanwhile.
  void WriteMore() {
    const ssize_t written = ::write(in_.native_handle(), unwritten_.data(), unwritten_.size());
    if (written > 0) unwritten_.erase(0, static_cast<size_t>(written));
    // A closed pipe: the command has ended, and its end says more than the error.
    if (written < 0 && errno != EAGAIN) unwritten_.clear();
    if (unwritten_.empty()) return;
    in_.async_wait(in_.wait_write, [this](const asio::error_code& error) {
      if (!error) WriteMore();
    });
  }

  asio::io_context& io_;
  Console& console_;
  const HostStart& start_;
  pid_t pid_ = -1;
  int killed_by_ = 0;
  asio::posix::stream_descriptor in_;
  std::string unwritten_;               // of what goes to in_
  asio::posix::stream_descriptor out_;  // until the host is ready
  UniqueFd err_;                        // the same
  std::string words_;
  std::shared_ptr<WorkerStream> out_stream_;
  std::shared_ptr<WorkerStream> err_stream_;
};

// The agents of a job, from the start of the first to the end of the last.
class HostsRun {
 public:
  // Both must outlive the run.
  HostsRun(const HostsPlan& plan, const Environment& env) : plan_(plan), env_(env) {}

  // Returns the job's exit code.
  Result<int> Run() {
    ::signal(SIGCHLD, SIG_DFL);  // if it were ignored, the kernel would drop exit statuses
    for (const HostStart& start : plan_.starts) {
      agents_.push_back(std::make_unique<RemoteAgent>(io_, console_, start));
      DDPRUN_TRY(agents_.back()->Start(env_));
    }
    const SignalMask mask(plan_.options.signals_to_handle);
    DDPRUN_ASSIGN(const auto signals,
                  SignalReader::Create(io_, mask, [this](int signal, pid_t) { OnSignal(signal); }));
    Reap();  // an agent may have ended before the mask was set
    io_.run();
    io_.restart();
    console_.WhenEmpty([this] { io_.stop(); });
    io_.run();
    // A node that is lost does no harm as long as enough others are left.
    return HasEnough() ? 0 : first_code_;
  }

 private:
  void OnSignal(int signal) {
    if (signal == SIGCHLD) return Reap();
    if (std::ranges::count(plan_.options.signals_to_handle, signal) > 0) return Stop(signal);
    if (signal == SIGWINCH) return;
    for (const auto& agent : agents_) agent->Signal(signal);
    // Stops this process after the agents. The next signal is SIGCONT, on "fg".
    if (signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
  }

  void Reap() {
    for (size_t i = 0; i < agents_.size(); ++i) {
      if (const auto code = agents_[i]->TryEnd()) OnEnd(i, *code);
    }
    if (ended_ == agents_.size()) io_.stop();
  }

  bool HasEnough() const {
    return failed_ + static_cast<size_t>(plan_.options.rdzv.rules.min_nodes) <= agents_.size();
  }

  void Stop(int signal) {
    stopped_by_ = signal;
    ++stops_;
    for (const auto& agent : agents_) stops_ < kGivesUp ? agent->Stop(signal) : agent->GiveUp();
  }

  void OnEnd(size_t i, int code) {
    ++ended_;
    const bool ready = agents_[i]->ready();
    const bool killed = agents_[i]->killed_by() != 0;
    if (stopped_by_ != 0 && (!ready || killed)) {
      code = 128 + stopped_by_;
    } else if (!ready) {
      const Error error = NoAgent(plan_.starts[i].host, code, agents_[i]->words());
      console_.err().WriteLines(RenderForTerminal(error, env_));
      code = ExitStatus(error.code);
    } else if (killed) {
      NoteLostConnection(i);
    }
    if (code == 0) return;
    // Without the host of the rendezvous the others have no place to meet.
    failed_ += !ready && i == 0 && plan_.meets_at_first ? agents_.size() : 1;
    if (first_code_ == 0) first_code_ = code;
    if (HasEnough() || ending_ != nullptr) return;
    ending_ = clock_.Set(ready ? kAfterFailure : seconds(0), [this] {
      if (stopped_by_ == 0) Stop(SIGTERM);
    });
  }

  // The other agents only see that this one is stopped, and its words went with the connection.
  void NoteLostConnection(size_t i) {
    const HostStart& start = plan_.starts[i];
    const char* const name = SignalAbbreviation(agents_[i]->killed_by());
    log_.Warning("the connection to " + start.host + " ended, because " +
                 std::filesystem::path(start.command[0]).filename().string() +
                 " was killed by SIG" + (name != nullptr ? name : "NAL") +
                 "; the workers there are stopped");
  }

  asio::io_context io_;
  LoopClock clock_{io_};
  Console console_{io_, STDOUT_FILENO, STDERR_FILENO};
  const HostsPlan& plan_;
  const Environment& env_;
  const Log log_{
      {.name = "ddprun", .level = plan_.options.log_level, .time = plan_.options.log_time},
      [this](std::string_view text) { console_.err().WriteLines(text); }};
  std::vector<std::unique_ptr<RemoteAgent>> agents_;
  size_t ended_ = 0;
  size_t failed_ = 0;
  int first_code_ = 0;
  int stopped_by_ = 0;  // the last signal by which the job ends; 0 means none
  int stops_ = 0;
  Clock::Alarm ending_;
};

}  // namespace

Result<std::optional<int>> StartHosts(const std::vector<std::string>& args,
                                      const Environment& env,
                                      CheckOptionsFunction check) {
  if (IsAgentOfHostfile(env)) return std::optional<int>();
  DDPRUN_ASSIGN(const SplitArgs split, SplitFlags(args, AllFlags()));
  std::string file;
  std::string ssh = "ssh -o BatchMode=yes -o ServerAliveInterval=15";
  for (const GivenFlag& given : split.flags) {
    if (given.flag.read == nullptr) return std::optional<int>();  // --help and its like
    if (given.flag.name == "hostfile") file = given.value;
    if (given.flag.name == "ssh_command") ssh = given.value;
  }
  if (file.empty()) return std::optional<int>();
  DDPRUN_ASSIGN(const HostsPlan plan, MakeHostsPlan(file, ssh, args, env));
  if (plan.options.dry_run) {
    for (const HostStart& start : plan.starts) std::puts(FormatList(start.command, " ").c_str());
    std::fflush(stdout);
    std::error_code ignored;  // the hosts may have the file, and this machine not
    if (!std::filesystem::exists(plan.options.target, ignored)) return std::optional<int>(0);
    DDPRUN_ASSIGN(const int code, check(plan.options, env));
    return std::optional<int>(code);
  }
  DDPRUN_ASSIGN(const int code, HostsRun(plan, env).Run());
  return std::optional<int>(code);
}

}  // namespace ddprun::launcher
