#include "launcher/agent/template_host.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "launcher/agent/host_share.h"
#include "launcher/agent/worker_defaults.h"
#include "launcher/agent/worker_spec.h"
#include "launcher/cli/device_count.h"
#include "launcher/report/exit_text.h"

namespace ddprun::launcher {

namespace {

// Returns ForkOrder::argv. REQUIRES: both commands have as many words.
std::vector<std::pair<size_t, std::string>> DifferentWords(const std::vector<std::string>& from,
                                                           const std::vector<std::string>& to) {
  std::vector<std::pair<size_t, std::string>> words;
  for (size_t i = 0; i < to.size(); ++i) {
    if (from[i] != to[i]) words.emplace_back(to.size() - i, to[i]);
  }
  return words;
}

}  // namespace

TemplateHost::TemplateHost(const GroupSurroundings& surroundings,
                           const AgentPlan& plan,
                           Events events)
    : surroundings_(surroundings), plan_(plan), events_(std::move(events)), env_(plan.env) {
  // Libraries that are loaded before the fork read variables then, as OpenMP its number of threads.
  if (plan.options.host_share) SetHostShare(*plan.options.host_share, env_);
  SetWorkerDefaults(UsableCores(), plan.local_world_size(), env_);
  env_.Set("DDPRUN_JOB_ID", plan.job_id);
}

Status TemplateHost::EnsureRunning() {
  if (running_) return {};
  refusal_.reset();
  FinishOutput();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return SystemError("opening a pipe", errno);
  stderr_ = WorkerStream::Start(surroundings_.io, UniqueFd(ends[0]),
                                {.console = &surroundings_.console.err()});
  const UniqueFd write_end(ends[1]);
  surroundings_.processes.MarkPipe(write_end.get());
  SpawnRequest request{.name = plan_.target.program,
                       .program = plan_.target.program,
                       .argv = plan_.target.template_argv,
                       .env = env_.Entries(),
                       .stderr_fd = write_end.get()};
  DDPRUN_ASSIGN(client_, TemplateClient::Start(surroundings_.io, surroundings_.processes,
                                               std::move(request), [this] {
                                                 surroundings_.log.Debug("worker template ready");
                                                 ready_ = true;
                                                 events_.on_ready();
                                               }));
  running_ = true;
  surroundings_.log.Debug("worker template started", {{"pid", std::to_string(client_->pid())}});
  return {};
}

void TemplateHost::Start(std::span<const WorkerSpec> specs, Handlers handlers) {
  if (!ready_) return handlers.on_done(SystemError("forking a worker", ESRCH));
  std::vector<ForkOrder> orders;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Result<const WorkerFds*> fds = handlers.open(i);
    if (!fds) return handlers.on_done(fds.error());
    const int out = (*fds)->out.valid() ? (*fds)->out.get() : STDOUT_FILENO;
    const int err = (*fds)->err.valid() ? (*fds)->err.get() : STDERR_FILENO;
    orders.push_back({.local_rank = specs[i].local_rank,
                      .env = ChangeOf(env_, specs[i].env),
                      .argv = DifferentWords(plan_.target.argv, specs[i].argv),
                      .fds = {STDIN_FILENO, out, err}});
    std::ranges::copy(specs[i].inherited_fds, std::back_inserter(orders.back().fds));
  }
  SetBusy(true);
  client_->ForkWorkers(
      orders, [this, handlers = std::move(handlers)](const Result<std::vector<pid_t>>& pids) {
        Status status = pids ? Status() : Status(pids.error());
        for (size_t i = 0; status.ok() && i < pids->size(); ++i) {
          status = surroundings_.processes.Adopt((*pids)[i]);
          if (status.ok()) handlers.on_started(i, (*pids)[i]);
        }
        SetBusy(false);
        handlers.on_done(status);
      });
}

void TemplateHost::SetBusy(bool busy) {
  is_busy_ = busy;
  surroundings_.processes.ExpectAdoption(busy);
}

void TemplateHost::Kill() {
  if (is_busy_) surroundings_.processes.Signal(client_->pid(), SIGKILL);
}

bool TemplateHost::OnExit(pid_t pid, const ProcessExit& exit) {
  if (client_ == nullptr || pid != client_->pid()) return false;
  running_ = false;
  surroundings_.log.Debug("worker template " + DescribeExit(exit));
  // A template that exits with a code has said on standard error why.
  if (std::holds_alternative<Exited>(exit) && ExitCode(exit) != 0) refusal_ = ExitCode(exit);
  ready_ = false;
  if (client_->forking()) {
    client_->OnExit(exit);
    return true;
  }
  events_.on_lost(Error{
      .title = "WORKER TEMPLATE FAILED",
      .where = plan_.target.name,
      .what = plan_.target.program + " " + DescribeExit(exit) + " before it could fork workers.",
      .page = "template-failed"});
  return true;
}

void TemplateHost::Close() {
  client_.reset();
}

void TemplateHost::FinishOutput() {
  if (stderr_ != nullptr) stderr_->Finish();
}

}  // namespace ddprun::launcher
