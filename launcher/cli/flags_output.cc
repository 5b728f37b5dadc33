// Flags for the workers' output and ddprun's own lines.
#include "launcher/cli/flag.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

constexpr std::string_view kStreamsExpected =
    "0 (none), 1 (stdout), 2 (stderr), 3 (both), or one for each local rank, as in 0:3,1:2";

bool ReadLabel(std::string_view text, Options& options) {
  if (text == "auto") options.label = Label::kAuto;
  if (text == "always") options.label = Label::kAlways;
  if (text == "never") options.label = Label::kNever;
  return text == "auto" || text == "always" || text == "never";
}

bool ReadLogLevel(std::string_view text, Options& options) {
  const std::optional<LogLevel> level = ParseLogLevel(text);
  options.log_level = level.value_or(options.log_level);
  return level.has_value();
}

std::vector<Flag> LogFlags() {
  return {
      {.name = "log_level",
       .variable = "LOGLEVEL",
       .value = "LEVEL",
       .of_torchrun = false,
       .help = "How much ddprun says itself: debug, info, warning or error (default: "
               "LOGLEVEL, or info)",
       .expected = "one of debug, info, warning, error",
       .completion = Completion::kChoices,
       .choices = "debug info warning error",
       .read = ReadLogLevel},
      {.name = "log_time",
       .variable = "PET_LOG_TIME",
       .of_torchrun = false,
       .help = "Begin each line of ddprun's own with the time (UTC)",
       .read = [](std::string_view text, Options& o) { return ReadSwitch(text, o.log_time); }},
      {.name = "log_file",
       .variable = "PET_LOG_FILE",
       .value = "FILE",
       .of_torchrun = false,
       .help = "Append ddprun's own lines to FILE too, with times and debug lines; %h: the host",
       .expected = "a file name",
       .completion = Completion::kFile,
       .read = [](std::string_view text, Options& o) { return ReadText(text, o.log_file); }},
  };
}

std::vector<Flag> Filters() {
  return {
      {.name = "local_ranks_filter",
       .variable = "PET_LOCAL_RANKS_FILTER",
       .value = "0,2",
       .help = "Show only these local ranks on the terminal; files are not affected",
       .expected = "local ranks separated by commas",
       .read = [](std::string_view text,
                  Options& o) { return ReadRanks(text, o.local_ranks_filter); }},
      {.name = "duplicate_stdout_filters",
       .variable = "PET_DUPLICATE_STDOUT_FILTERS",
       .value = "A,B",
       .help = "Copy lines of tee'd stdout that contain A or B to filtered_stdout.log; ,, is a "
               "comma",
       .expected = "texts separated by commas",
       .read =
           [](std::string_view text, Options& o) {
             o.duplicate_stdout_filters = SplitWords(text);
             return true;
           }},
      {.name = "duplicate_stderr_filters",
       .variable = "PET_DUPLICATE_STDERR_FILTERS",
       .value = "A,B",
       .help = "The same for stderr and filtered_stderr.log",
       .expected = "texts separated by commas",
       .read =
           [](std::string_view text, Options& o) {
             o.duplicate_stderr_filters = SplitWords(text);
             return true;
           }},

  };
}

}  // namespace

std::vector<Flag> OutputFlags() {
  std::vector<Flag> flags = {
      {.name = "log_dir",
       .variable = "PET_LOG_DIR",
       .value = "FOLDER",
       .help = "Keep logs and error files in FOLDER; /dev/null: no such files at all (default: a "
               "temporary folder)",
       .expected = "a folder",
       .completion = Completion::kFolder,
       .read =
           [](std::string_view text, Options& o) {
             o.log_dir = text;
             return true;
           }},
      {.name = "redirects",
       .short_names = "r",
       .variable = "PET_REDIRECTS",
       .value = "WHICH",
       .help = "Streams that go to log files only: 0 none, 1 stdout, 2 stderr, 3 both, or one for "
               "each local rank: 0:3,1:2 (default 0)",
       .expected = kStreamsExpected,
       .completion = Completion::kChoices,
       .choices = "0 1 2 3",
       .read = [](std::string_view text, Options& o) { return ReadStreams(text, o.redirects); }},
      {.name = "tee",
       .short_names = "t",
       .variable = "PET_TEE",
       .value = "WHICH",
       .help = "Streams that go to log files and to the terminal (default 0)",
       .expected = kStreamsExpected,
       .completion = Completion::kChoices,
       .choices = "0 1 2 3",
       .read = [](std::string_view text, Options& o) { return ReadStreams(text, o.tee); }},
      {.name = "label",
       .variable = "PET_LABEL",
       .value = "WHEN",
       .of_torchrun = false,
       .help = "Start each line with its rank: auto, always or never (default auto)",
       .expected = "one of auto, always, never",
       .completion = Completion::kChoices,
       .choices = "auto always never",
       .read = ReadLabel},
  };
  for (const std::vector<Flag>& more : {LogFlags(), Filters()}) {
    flags.insert(flags.end(), more.begin(), more.end());
  }
  return flags;
}

}  // namespace ddprun::launcher
