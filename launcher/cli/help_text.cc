#include "launcher/cli/help_text.h"

#include <sstream>

namespace ddprun::launcher {

namespace {

constexpr size_t kWidth = 80;
constexpr size_t kHelpColumn = 30;
constexpr size_t kUsageColumn = 33;

constexpr std::string_view kTop =
    "Starts one worker process per device, on one node or many, and watches over\n"
    "them.\n"
    "\n"
    "Usage: ddprun [options] TARGET [args...]\n";

constexpr std::string_view kTarget =
    "\n"
    "TARGET is a trainer config (.json), a Python script (.py), a module (-m), or any\n"
    "program. What follows it belongs to it; ${local_rank} in it is filled in.\n"
    "\n"
    "  ddprun --nproc_per_node=4 train.py --lr 0.1\n"
    "  ddprun --nproc_per_node=4 --set optimizer.learning_rate=1e-4 train.json\n"
    "  ddprun --nnodes=2 --node_rank=1 --master_addr=node0 train.py\n";

constexpr std::string_view kBottom =
    "\n"
    "Options may be written with dashes or underscores, and shortened while they stay\n"
    "unique. The defaults of torchrun's options come from PET_ and the name in\n"
    "capitals (PET_NPROC_PER_NODE=2). The last of several wins.\n";

}  // namespace

std::string FlagSynopsis(const Flag& flag) {
  const std::string_view letter = flag.short_names.substr(0, flag.short_names.find(' '));
  std::string text = letter.empty() ? "    " : "-" + std::string(letter) + ", ";
  text += "--" + std::string(flag.name);
  if (!flag.value.empty()) text += " " + std::string(flag.value);
  return text;
}

std::vector<std::string> WrapText(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  std::stringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(word);
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
  }
  return lines;
}

std::string HelpText(std::span<const Flag> flags, std::span<const Subcommand> subcommands) {
  std::string text(kTop);
  for (const Subcommand& command : subcommands) {
    std::string line = "       ddprun " + std::string(command.name);
    line += " " + std::string(command.arguments);
    if (line.size() + 2 > kUsageColumn) {
      text += line + "\n";
      line.clear();
    }
    line.resize(kUsageColumn, ' ');
    text += line + std::string(command.help) + "\n";
  }
  text += kTarget;
  for (int group = 0; group < kFlagGroups; ++group) {
    text += "\n" + std::string(GroupTitle(static_cast<FlagGroup>(group))) + "\n";
    for (const Flag& flag : flags) {
      if (static_cast<int>(flag.group) != group) continue;
      std::string line = "  " + FlagSynopsis(flag);
      if (line.size() + 2 > kHelpColumn) {
        text += line + "\n";
        line.clear();
      }
      for (const std::string& part : WrapText(flag.help, kWidth - kHelpColumn)) {
        line.resize(kHelpColumn, ' ');
        text += line + part + "\n";
        line.clear();
      }
    }
  }
  text += kBottom;
  return text;
}

}  // namespace ddprun::launcher
