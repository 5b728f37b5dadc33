#include <sstream>
#include <vector>

#include "launcher/cli/help_text.h"

namespace ddprun::launcher {

namespace {

// Width of text lines before "-" becomes "\\-".
constexpr size_t kTextWidth = 70;

constexpr std::string_view kTitle =
    ".TH DDPRUN 1 2026-11-21 \"ddprun " DDPRUN_VERSION "\" \"User Commands\"\n";

constexpr std::string_view kHead = R"(.SH NAME
ddprun \- start one worker process per device, on one node or many
.SH SYNOPSIS
.B ddprun
.RI [ options ]
.I TARGET
.RI [ args ...]
)";

constexpr std::string_view kDescription = R"(.SH DESCRIPTION
.B ddprun
starts the workers of a distributed job on this node, gives them the environment
that
.BR torchrun (1)
gives its workers, watches over them, and ends with the exit code of the first
one that failed.
None of them outlives it.
.PP
.I TARGET
is a trainer config (a name that ends in
.IR .json ),
a Python script
.RI ( .py ),
a Python module
.RB ( \-m ),
or any program.
What follows it belongs to it; in it,
.B ${local_rank}
stands for the worker's local rank.
.PP
Options are those of
.BR torchrun .
They may be written with dashes or underscores and shortened while they stay
unique; the last of several wins.
.SH OPTIONS
)";

constexpr std::string_view kTail = R"(.SH EXIT STATUS
.TP
.B 0
All workers on all nodes ended with 0.
.TP
.B 2
A wrong option or config.
.TP
.B 3
The nodes did not come together.
.TP
.BR 126 ", " 127
The program cannot be executed, or does not exist.
.TP
.BI "128 + " n
A worker, or
.B ddprun
itself, was ended by signal
.IR n .
.PP
Otherwise that of the worker that failed first.
.SH ENVIRONMENT
.TP
.B PYTHON_EXEC
The interpreter for Python scripts and modules (default: that of the virtual
environment that
.B ddprun
is installed in, else python3).
.TP
.B DDPRUN_TRAINER
The
.B ddp\-trainer
for trainer configs.
.TP
.B LOGLEVEL
The default of
.BR \-\-log_level ,
also of what
.B ddp\-trainer
says; Python's names, any case.
.SH EXAMPLES
Four workers on this machine:
.PP
.in +4n
.EX
ddprun \-\-nproc_per_node=4 train.py \-\-lr 0.1
.EE
.in
.PP
Two nodes with eight workers each, the same command on both but for the node's
rank:
.PP
.in +4n
.EX
ddprun \-\-nnodes=2 \-\-node_rank=0 \-\-master_addr=node0 \-n 8 train.py
.EE
.in
.PP
A trainer config with three learning rates:
.PP
.in +4n
.EX
ddprun \-\-sweep optimizer.learning_rate=1e\-4,3e\-4,1e\-3 train.json
.EE
.in
)";

// Returns roff that shows `text` as it is: no part of it is a request or an escape.
std::string EscapeRoff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  if (result.starts_with('.') || result.starts_with('\'')) result.insert(0, "\\&");
  return result;
}

std::string Entry(const Flag& flag) {
  std::string names;
  std::stringstream shorts{std::string(flag.short_names)};
  for (std::string name; shorts >> name;) names += "\\fB\\-" + name + "\\fR, ";
  names += "\\fB" + EscapeRoff("--" + std::string(flag.name)) + "\\fR";
  if (!flag.value.empty()) names += " \\fI" + EscapeRoff(flag.value) + "\\fR";
  std::string text = ".TP\n" + names + "\n";
  for (const std::string& line : WrapText(std::string(flag.help) + ".", kTextWidth)) {
    text += EscapeRoff(line) + "\n";
  }
  if (!flag.variable.empty()) {
    text += "Default from \\fB" + std::string(flag.variable) + "\\fR.\n";
  }
  return text;
}

}  // namespace

std::string ManPage(std::span<const Flag> flags, std::span<const Subcommand> subcommands) {
  std::string text(kTitle);
  text += kHead;
  for (const Subcommand& command : subcommands) {
    text += ".br\n.B ddprun " + std::string(command.name) + "\n.RI \"" +
            std::string(command.arguments) + "\"\n";
  }
  text += kDescription;
  for (int group = 0; group < kFlagGroups; ++group) {
    text += ".SS " + std::string(GroupTitle(static_cast<FlagGroup>(group))) + "\n";
    for (const Flag& flag : flags) {
      if (static_cast<int>(flag.group) == group) text += Entry(flag);
    }
  }
  return text + std::string(kTail);
}

}  // namespace ddprun::launcher
