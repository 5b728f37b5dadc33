#include "launcher/agent/template_host.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launcher/agent/worker_spec.h"
#include "launcher/cli/device_count.h"
#include "launcher/report/exit_text.h"

namespace ddprun::launcher {

TemplateHost::TemplateHost(const GroupSurroundings& surroundings,
                           const AgentPlan& plan,
                           Handlers handlers)
    : surroundings_(surroundings), plan_(plan), handlers_(std::move(handlers)), env_(plan.env) {
  // Sets the number of threads before the fork, because OpenMP reads it when it is loaded.
  ShareCores(UsableCores(), plan.local_world_size(), env_);
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
                       .argv = plan_.target.argv,
                       .env = env_.Entries(),
                       .stderr_fd = write_end.get()};
  DDPRUN_ASSIGN(client_, TemplateClient::Start(surroundings_.io, surroundings_.processes,
                                               std::move(request), [this] {
                                                 surroundings_.log.Debug("worker template ready");
                                                 ready_ = true;
                                                 handlers_.on_ready();
                                               }));
  running_ = true;
  surroundings_.log.Debug("worker template started", {{"pid", std::to_string(client_->pid())}});
  return {};
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
  handlers_.on_lost(Error{
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
