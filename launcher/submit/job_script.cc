#include "launcher/submit/job_script.h"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/shell_text.h"

namespace ddprun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "runs/slurm";

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + QuoteForShell(word);
  return text;
}

// Returns the name without characters that a path, or sbatch in the name of a log, would interpret.
std::string FileName(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') {
      c = '_';
    }
  }
  return name.starts_with('.') ? "_" + name : name;
}

// Returns an option as sbatch reads it in a file. Only quotes keep a blank, and within quotes, too,
// a "#" begins a comment and a backslash takes the meaning from the next character.
std::string QuoteForSbatch(const std::string& option) {
  constexpr std::string_view kPlain = "-_=./,:;%@+[]*";
  const auto is_plain = [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 128 || std::isalnum(byte) != 0 || kPlain.find(c) != kPlain.npos;
  };
  if (std::ranges::all_of(option, is_plain)) return option;
  std::string text;
  for (const char c : option) text += (is_plain(c) || c == ' ' ? "" : "\\") + std::string(1, c);
  return "\"" + text + "\"";
}

// Returns options that the user has not given. ddprun saves within the 90 seconds after SIGUSR1.
std::vector<std::string> DefaultOptions(const SubmitWords& words, bool trainer) {
  const std::string name = JobName(words);
  std::vector<std::string> options;
  const auto add = [&](std::string_view unless, const std::string& option) {
    if (!words.HasAny(unless)) options.push_back(option);
  };
  add("job-name", "--job-name=" + name);
  add("ntasks ntasks-per-node ntasks-per-gpu ntasks-per-socket ntasks-per-core gpus-per-task",
      "--ntasks-per-node=1");
  if (trainer) add("signal", "--signal=USR1@90");
  if (words.outlives_nodes) add("no-kill", "--no-kill");
  add("no-requeue", "--requeue");
  add("open-mode", "--open-mode=append");
  const std::string job = words.HasAny("array") ? "%A_%a" : "%j";
  add("output", "--output=" + std::string(kFolder) + "/" + FileName(name) + "-" + job + ".out");
  return options;
}

}  // namespace

std::string JobName(const SubmitWords& words) {
  constexpr std::string_view kGiven = "--job-name=";
  for (const std::string& option : words.sbatch) {
    if (option.starts_with(kGiven)) return option.substr(kGiven.size());
  }
  if (words.target.empty()) return "ddprun";  // --resume RUN
  return fs::path(words.target.front()).stem().string();
}

std::string JobScript(const SubmitWords& words,
                      const std::string& program,
                      bool trainer,
                      const std::vector<std::string>& args) {
  std::vector<std::string> shown = args;
  std::erase_if(shown, [](const std::string& word) {
    return word == "--dry_run" || word == "--dry-run" || word == "--follow";
  });
  std::string command = Joined(shown);
  std::ranges::replace(command, '\n', ' ');
  std::string text = "#!/bin/bash\n# Written by: ddprun submit " + command + "\n";
  std::vector<std::string> options = words.sbatch;
  for (std::string& option : DefaultOptions(words, trainer)) options.push_back(std::move(option));
  for (const std::string& option : options) text += "#SBATCH " + QuoteForSbatch(option) + "\n";
  text += "\n# The secret by which the nodes know each other.\nDDPRUN_TOKEN=\"$(" +
          QuoteForShell(program) + " token)\" || exit\nexport DDPRUN_TOKEN\n";
  text += "srun --kill-on-bad-exit=";
  text += words.outlives_nodes ? "0 --no-kill" : "1";
  // Without it, srun passes no token on if sbatch has got --export=NONE, or names of variables.
  text += " --export=ALL";
  // srun has not read the job's --cpus-per-task since SLURM 22.05.
  if (words.HasAny("cpus-per-task")) text += " --cpus-per-task=\"$SLURM_CPUS_PER_TASK\"";
  text += " \\\n  " + QuoteForShell(program);
  // With torchrun's exit codes, no batch script could do what --requeue leaves to it.
  const bool torchrun = ValueAmong(words.ddprun, "exit_code") == "torchrun";
  const bool given = !ValueAmong(words.ddprun, "requeue").empty();
  if (!given && !torchrun && !words.HasAny("no-requeue")) text += " --requeue=3";
  if (!words.ddprun.empty()) text += " " + Joined(words.ddprun);
  if (words.target.empty()) return text + "\n";  // --resume RUN
  return text + (words.target.front().starts_with('-') ? " -- " : " ") + Joined(words.target) +
         "\n";
}

Result<WrittenScript> WriteScript(const std::string& job_name, const std::string& text) {
  std::error_code error;
  fs::create_directories(kFolder, error);
  if (error) return CannotWrite(kFolder, error.value());
  for (int number = 1;; ++number) {
    const std::string suffix = number == 1 ? "" : "-" + std::to_string(number);
    WrittenScript script{.path =
                             std::string(kFolder) + "/" + FileName(job_name) + suffix + ".sbatch"};
    if (ReadIfReadable(script.path) == text) return script;
    const UniqueFd file(::open(script.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file.valid() && errno == EEXIST) continue;
    if (!file.valid()) return CannotWrite(script.path, errno);
    script.is_new = true;
    if (Status status = WriteAll(file.get(), text, script.path); !status.ok()) {
      WithdrawScript(script);
      return std::move(status).error();
    }
    return script;
  }
}

void WithdrawScript(const WrittenScript& script) {
  std::error_code ignored;
  if (!script.is_new) return;
  fs::remove(script.path, ignored);
  fs::remove(kFolder, ignored);  // folders only if they are empty
  fs::remove(fs::path(kFolder).parent_path(), ignored);
}

}  // namespace ddprun::launcher
