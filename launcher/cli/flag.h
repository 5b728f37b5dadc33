// One flag of ddprun: the command line, --help, shell completion and the man page read this table.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/cli/options.h"

namespace ddprun::launcher {

// As a person looks for them; --help shows the groups in this order.
enum class FlagGroup {
  kRun,
  kWorkers,
  kNodes,
  kFailure,
  kOutput,
  kTrainer,
  kCompatibility,
  kOther
};
inline constexpr int kFlagGroups = 8;

// What the shell offers for a value.
enum class Completion { kNothing, kFile, kFolder, kChoices };

struct Flag {
  std::string_view name;              // canonical spelling, with underscores
  std::string_view short_names = {};  // behind a single dash, separated by blanks
  std::string_view variable = {};     // holds its default; empty: none
  std::string_view value = {};        // what the help shows as its value; empty: a switch
  FlagGroup group = FlagGroup::kOther;
  bool of_torchrun = true;  // torchrun 2.11 has it, so its prefixes keep their meaning
  std::string_view help;    // one sentence without a full stop
  std::string_view expected = "0 or 1";
  Completion completion = Completion::kNothing;
  std::string_view choices = {};  // for kChoices, separated by blanks
  // Takes the text (of a switch: "1"); false when it is not as `expected` says. Null for a flag
  // that prints something and ends.
  bool (*read)(std::string_view text, Options& options) = nullptr;
};

// All flags, group by group, each with its group.
std::vector<Flag> AllFlags();

std::string_view GroupTitle(FlagGroup group);

// The parts of AllFlags.
std::vector<Flag> RunFlags();
std::vector<Flag> TrainerFlags();
std::vector<Flag> WorkerFlags();
std::vector<Flag> NodeFlags();
std::vector<Flag> FailureFlags();
std::vector<Flag> OutputFlags();
std::vector<Flag> CompatibilityFlags();
std::vector<Flag> OtherFlags();

}  // namespace ddprun::launcher
