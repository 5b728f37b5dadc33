// Flags for failures and for stopping a job.
#include "launcher/cli/flag.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

bool ReadExitCode(std::string_view text, Options& options) {
  options.exit_code = text == "torchrun" ? ExitCodeStyle::kTorchrun : ExitCodeStyle::kWorker;
  return text == "torchrun" || text == "worker";
}

bool ReadSignalsToHandle(std::string_view text, Options& options) {
  options.signals_text = text;
  return ReadSignals(text, options.signals_to_handle);
}

std::vector<Flag> Timeouts() {
  return {
      {.name = "shutdown_timeout",
       .variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT",
       .value = "SECS",
       .help = "From SIGTERM to SIGKILL for workers that have to stop (default 30; for a trainer "
               "config, whose workers save first, 300; in a SLURM job less, by its KillWait)",
       .expected = "a time in seconds from 0",
       .read = [](std::string_view text,
                  Options& o) { return ReadSeconds(text, 0, o.shutdown_timeout.emplace()); }},
      {.name = "exit_barrier_timeout",
       .variable = "PET_EXIT_BARRIER_TIMEOUT",
       .value = "SECS",
       .of_torchrun = false,
       .help = "How long a node whose workers are done waits for the others (default: until they "
               "are done)",
       .expected = "a time in seconds from 0",
       .read = [](std::string_view text,
                  Options& o) { return ReadSeconds(text, 0, o.exit_barrier_timeout.emplace()); }},
      {.name = "hang_timeout",
       .variable = "PET_HANG_TIMEOUT",
       .value = "SECS",
       .of_torchrun = false,
       .help = "When no worker has moved for so long, say where each stands and stop them "
               "(default: never)",
       .expected = "a time in seconds, more than 0",
       .read = [](std::string_view text,
                  Options& o) { return ReadSeconds(text, 0.001, o.hang_timeout.emplace()); }},

  };
}

}  // namespace

std::vector<Flag> FailureFlags() {
  std::vector<Flag> flags = Timeouts();
  const std::vector<Flag> others = {
      {.name = "max_restarts",
       .variable = "PET_MAX_RESTARTS",
       .value = "N",
       .help = "Start all workers again after a failure, this often (default 0)",
       .expected = "a number from 0",
       .read =
           [](std::string_view text, Options& o) {
             return ReadBounded(text, 0, 1'000'000, o.rdzv.rules.max_restarts);
           }},
      {.name = "signals_to_handle",
       .variable = "PET_SIGNALS_TO_HANDLE",
       .value = "LIST",
       .help = "Signals that stop the job, passed on to the workers (default "
               "SIGTERM,SIGINT,SIGHUP,SIGQUIT)",
       .expected = "names of signals separated by commas, without SIGKILL and SIGSTOP",
       .read = ReadSignalsToHandle},
      {.name = "requeue",
       .variable = "PET_REQUEUE",
       .value = "N",
       .of_torchrun = false,
       .help = "In a SLURM job that has saved and ended before its last step, or that has lost a "
               "node: put the job back into the queue, at most N times (default 0)",
       .expected = "a number from 0",
       .read = [](std::string_view text,
                  Options& o) { return ReadBounded(text, 0, 1'000'000, o.requeues); }},
      {.name = "exit_code",
       .variable = "PET_EXIT_CODE",
       .value = "STYLE",
       .of_torchrun = false,
       .help = "worker: ddprun ends with the failed worker's code; torchrun: with 1 (default "
               "worker)",
       .expected = "worker or torchrun",
       .completion = Completion::kChoices,
       .choices = "worker torchrun",
       .read = ReadExitCode},
      {.name = "report_file",
       .variable = "PET_REPORT_FILE",
       .value = "FILE",
       .of_torchrun = false,
       .help = "Write how the job ended to FILE, as JSON",
       .expected = "a file name",
       .completion = Completion::kFile,
       .read = [](std::string_view text, Options& o) { return ReadText(text, o.report_file); }},
  };
  flags.insert(flags.begin(), others.begin(), others.end());
  return flags;
}

}  // namespace ddprun::launcher
