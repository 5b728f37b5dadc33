#include "launcher/agent/worker_starter.h"

namespace ddprun::launcher {

void ProgramStarter::Start(std::span<const WorkerSpec> specs, Handlers handlers) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const Result<const WorkerFds*> fds = handlers.open(i);
    if (!fds) return handlers.on_done(fds.error());
    const Result<pid_t> pid = processes_.Spawn({.name = target_.name,
                                                .program = target_.program,
                                                .argv = specs[i].argv,
                                                .env = specs[i].env.Entries(),
                                                .stdout_fd = (*fds)->out.get(),
                                                .stderr_fd = (*fds)->err.get(),
                                                .inherited_fds = specs[i].inherited_fds,
                                                .cpus = specs[i].cpus});
    if (!pid) return handlers.on_done(pid.error());
    handlers.on_started(i, *pid);
  }
  handlers.on_done({});
}

}  // namespace ddprun::launcher
