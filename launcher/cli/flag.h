// The table of ddprun's flags, for the command line, --help, shell completion and the man page.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/cli/options.h"

namespace ddprun::launcher {

// --help shows the groups in this order.
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

// The kind of words with which the shell completes a value.
enum class Completion { kNothing, kFile, kFolder, kChoices };

struct Flag {
  std::string_view name;              // canonical spelling, with underscores
  std::string_view short_names = {};  // without the single dash, separated by blanks
  std::string_view variable = {};     // environment variable with its default; "" means none
  std::string_view value = {};        // its value's name in the help; "" means a switch
  FlagGroup group = FlagGroup::kOther;
  bool of_torchrun = true;  // torchrun 2.11 has this flag; see SplitFlags()
  std::string_view help;    // one sentence without a full stop
  std::string_view expected = "0 or 1";
  Completion completion = Completion::kNothing;
  std::string_view choices = {};  // for kChoices, separated by blanks
  // Reads the value (of a switch: "1"). Returns false if it is not as `expected` says. nullptr
  // means that the flag prints something and ends ddprun.
  bool (*read)(std::string_view text, Options& options) = nullptr;
};

// Returns all flags, group by group.
std::vector<Flag> AllFlags();

std::string_view GroupTitle(FlagGroup group);

// The parts of AllFlags().
std::vector<Flag> RunFlags();
std::vector<Flag> TrainerFlags();
std::vector<Flag> WorkerFlags();
std::vector<Flag> NodeFlags();
std::vector<Flag> FailureFlags();
std::vector<Flag> OutputFlags();
std::vector<Flag> CompatibilityFlags();
std::vector<Flag> OtherFlags();

}  // namespace ddprun::launcher
