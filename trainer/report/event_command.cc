#include "trainer/report/event_command.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/atomic_file.h"
#include "base/unique_fd.h"
#include "trainer/report/eval_json.h"
#include "trainer/report/json_number.h"

namespace ddprun::trainer {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostChildren = 4;
constexpr std::chrono::seconds kEndGrace{5};

std::string Text(const Json& object) {
  // Replaces invalid UTF-8, because error messages may contain any bytes.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string FieldsOf(const EvalReport& report, ReportTime now) {
  Json fields = {{"time", now.unix_seconds},
                 {"step", report.step},
                 {"loss", JsonNumber(report.loss)},
                 {"samples", report.samples}};
  fields.update(MetricsJson(report));
  return Text(fields);
}

// Returns a file in memory with this text, to be read from its beginning. Invalid: an error.
UniqueFd FileOf(const std::string& text) {
  UniqueFd file(::memfd_create("ddprun-event", MFD_CLOEXEC));
  if (!file.valid() || WriteBytes(file.get(), text) != 0) return {};
  return ::lseek(file.get(), 0, SEEK_SET) == 0 ? std::move(file) : UniqueFd();
}

// Starts `sh -c command` with `input` as its standard input. Returns 0 or errno.
int StartShell(const std::string& command, int input, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // The threads of the run block the signals that stop it; the command does not.
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  // The run ignores these, and programs in a pipe of the command must end by the first.
  sigset_t ignored;
  ::sigemptyset(&ignored);
  ::sigaddset(&ignored, SIGPIPE);
  ::sigaddset(&ignored, SIGXFSZ);
  ::posix_spawnattr_setsigdefault(&attributes, &ignored);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::array<char, 3> shell = {'s', 'h', '\0'};
  std::array<char, 3> flag = {'-', 'c', '\0'};
  std::string text = command;
  const std::array<char*, 4> words = {shell.data(), flag.data(), text.data(), nullptr};
  const int error = ::posix_spawn(pid, "/bin/sh", &actions, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

void EventCommand::OnBegin(const RunHeader& header, ReportTime now) {
  run_name_ = header.run_name;
  if (continues_) return;
  Start("start", Text({{"time", now.unix_seconds},
                       {"step", header.resumed_step},
                       {"ranks", header.world_size},
                       {"strategy", header.strategy}}));
}

void EventCommand::OnEval(const EvalReport& report, ReportTime now) {
  Start("evaluation", FieldsOf(report, now));
}

void EventCommand::OnTest(const EvalReport& report, ReportTime now) {
  Start("test", FieldsOf(report, now));
}

void EventCommand::OnCheckpoint(const CheckpointReport& report, ReportTime now) {
  Json fields = {{"time", now.unix_seconds}, {"step", report.step}, {"path", report.path}};
  if (!report.error.empty()) fields["error"] = report.error;
  Start(report.error.empty() ? "checkpoint" : "checkpoint_failed", Text(fields));
}

void EventCommand::OnEnd(const RunEnd& end, ReportTime now) {
  Json fields = {{"time", now.unix_seconds}, {"step", end.step}, {"reason", end.reason}};
  if (!end.message.empty()) fields["message"] = end.message;
  Start("end", Text(fields));
  const auto deadline = std::chrono::steady_clock::now() + kEndGrace;
  while (!children_.empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Reap();
  }
  if (children_.empty()) return;
  TellOnce("still runs " + std::to_string(kEndGrace.count()) + " s after the end (for " +
           children_.front().event + "); the run does not wait for it");
}

void EventCommand::Start(const std::string& event, const std::string& fields) {
  Reap();
  if (children_.size() >= kMostChildren) {
    return TellOnce("was not started for " + event + ": " + std::to_string(kMostChildren) +
                    " of its processes have not ended yet");
  }
  Json object = {{"event", event}, {"run", run_name_}, {"folder", folder_}};
  object.update(Json::parse(fields));
  const UniqueFd input = FileOf(Text(object) + "\n");
  Child child{.event = event};
  const int error = input.valid() ? StartShell(command_, input.get(), &child.pid) : errno;
  if (error != 0) {
    return TellOnce("could not be started for " + event + ": " + ErrnoText(error));
  }
  children_.push_back(std::move(child));
}

void EventCommand::Reap() {
  std::erase_if(children_, [this](const Child& child) {
    int status = 0;
    const pid_t ended = ::waitpid(child.pid, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    if (ended == child.pid && status != 0) {
      TellOnce(WIFEXITED(status) ? "ended with exit code " + std::to_string(WEXITSTATUS(status)) +
                                       " for " + child.event
                                 : "was ended by signal " + std::to_string(WTERMSIG(status)) +
                                       " for " + child.event);
    }
    return true;
  });
}

void EventCommand::TellOnce(const std::string& text) {
  if (std::exchange(told_once_, true)) return;
  told_.OnNote("warning: the command of report.on_event " + text +
               ". Training goes on; this is said once.");
}

}  // namespace ddprun::trainer
