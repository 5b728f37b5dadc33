// Flags of torchrun that change nothing in ddprun, and flags that print something.
#include "launcher/cli/flag.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

bool ReadMonitorInterval(std::string_view text, Options& options) {
  options.notes.emplace_back(
      "--monitor_interval has no effect: ddprun is told of every exit at once");
  return ReadSeconds(text, 1e-9, options.monitor_interval);
}

bool ReadStartMethod(std::string_view text, Options& options) {
  options.notes.emplace_back("--start_method has no effect: ddprun starts programs");
  return text == "spawn" || text == "fork" || text == "forkserver";
}

bool ReadEventLogHandler(std::string_view, Options& options) {
  options.notes.emplace_back(
      "--event_log_handler has no effect: how a job ended is in --report_file");
  return true;
}

bool ReadLogsSpecs(std::string_view, Options& options) {
  options.notes.emplace_back("--logs_specs has no effect: it names a Python class of torchrun's");
  return true;
}

}  // namespace

std::vector<Flag> CompatibilityFlags() {
  return {
      {.name = "monitor_interval",
       .variable = "PET_MONITOR_INTERVAL",
       .value = "SECS",
       .help = "ddprun is told of every exit at once",
       .expected = "a time in seconds, more than 0",
       .read = ReadMonitorInterval},
      {.name = "start_method",
       .variable = "PET_START_METHOD",
       .value = "METHOD",
       .help = "spawn, fork or forkserver: ddprun starts programs",
       .expected = "one of spawn, fork, forkserver",
       .completion = Completion::kChoices,
       .choices = "spawn fork forkserver",
       .read = ReadStartMethod},
      {.name = "event_log_handler",
       .variable = "PET_EVENT_LOG_HANDLER",
       .value = "NAME",
       .help = "See --report_file",
       .expected = "a name",
       .read = ReadEventLogHandler},
      {.name = "logs_specs",
       .value = "NAME",
       .help = "A Python plug-in of torchrun",
       .expected = "a name",
       .read = ReadLogsSpecs},
  };
}

std::vector<Flag> OtherFlags() {
  return {
      {.name = "help", .short_names = "h", .help = "Print this and end"},
      {.name = "version", .of_torchrun = false, .help = "Print versions and end"},
      {.name = "print_completion",
       .value = "SHELL",
       .of_torchrun = false,
       .help = "Print the completion script for bash or zsh and end",
       .expected = "bash or zsh",
       .completion = Completion::kChoices,
       .choices = "bash zsh"},
      {.name = "print_man_page", .of_torchrun = false, .help = "Print ddprun(1) as roff and end"},
  };
}

}  // namespace ddprun::launcher
