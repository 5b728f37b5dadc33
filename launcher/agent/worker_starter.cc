#include "launcher/agent/worker_starter.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

namespace ddprun::launcher {

namespace {

class ProgramStarter : public WorkerStarter {
 public:
  ProgramStarter(ProcessHost& processes, const Target& target, std::vector<int> shared_fds)
      : processes_(processes), target_(target), shared_fds_(std::move(shared_fds)) {}

  void Start(std::span<const WorkerSpec> specs, Handlers handlers) override {
    for (size_t i = 0; i < specs.size(); ++i) {
      const Result<const WorkerFds*> fds = handlers.open(i);
      if (!fds) return handlers.on_done(fds.error());
      const Result<pid_t> pid = processes_.Spawn({.name = target_.name,
                                                  .program = target_.program,
                                                  .argv = specs[i].argv,
                                                  .env = specs[i].env.Entries(),
                                                  .stdout_fd = (*fds)->out.get(),
                                                  .stderr_fd = (*fds)->err.get(),
                                                  .inherited_fds = shared_fds_,
                                                  .cpus = specs[i].cpus});
      if (!pid) return handlers.on_done(pid.error());
      handlers.on_started(i, *pid);
    }
    handlers.on_done({});
  }

 private:
  ProcessHost& processes_;
  const Target& target_;
  const std::vector<int> shared_fds_;
};

class TemplateStarter : public WorkerStarter {
 public:
  TemplateStarter(ProcessHost& processes, TemplateHost& host, std::vector<int> shared_fds)
      : processes_(processes), host_(host), shared_fds_(std::move(shared_fds)) {}

  void Start(std::span<const WorkerSpec> specs, Handlers handlers) override {
    std::vector<ForkOrder> orders;
    for (size_t i = 0; i < specs.size(); ++i) {
      const Result<const WorkerFds*> fds = handlers.open(i);
      if (!fds) return handlers.on_done(fds.error());
      const int out = (*fds)->out.valid() ? (*fds)->out.get() : STDOUT_FILENO;
      const int err = (*fds)->err.valid() ? (*fds)->err.get() : STDERR_FILENO;
      ForkOrder& order = orders.emplace_back();
      order = {specs[i].local_rank, ChangeOf(host_.env(), specs[i].env), {STDIN_FILENO, out, err}};
      order.fds.insert(order.fds.end(), shared_fds_.begin(), shared_fds_.end());
    }
    SetBusy(true);
    host_.client().ForkWorkers(
        orders, [this, handlers = std::move(handlers)](Result<std::vector<pid_t>> pids) {
          Status status = pids ? Status() : Status(std::move(pids).error());
          for (size_t i = 0; status.ok() && i < pids->size(); ++i) {
            status = processes_.Adopt((*pids)[i]);
            if (status.ok()) handlers.on_started(i, (*pids)[i]);
          }
          SetBusy(false);
          handlers.on_done(status);
        });
  }
  bool is_busy() const override { return is_busy_; }
  void Kill() override {
    if (is_busy_) processes_.Signal(host_.client().pid(), SIGKILL);
  }

 private:
  void SetBusy(bool busy) {
    is_busy_ = busy;
    processes_.ExpectAdoption(busy);
  }

  ProcessHost& processes_;
  TemplateHost& host_;
  const std::vector<int> shared_fds_;
  bool is_busy_ = false;
};

}  // namespace

std::unique_ptr<WorkerStarter> MakeStarter(ProcessHost& processes,
                                           const Target& target,
                                           TemplateHost* worker_template,
                                           std::vector<int> shared_fds) {
  if (worker_template == nullptr) {
    return std::make_unique<ProgramStarter>(processes, target, std::move(shared_fds));
  }
  return std::make_unique<TemplateStarter>(processes, *worker_template, std::move(shared_fds));
}

}  // namespace ddprun::launcher
