#include "launcher/batch/slurm_times.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "base/text.h"
#include "launcher/batch/requeue.h"
#include "launcher/batch/slurm_command.h"
#include "launcher/cli/read_value.h"

namespace ddprun::launcher {

namespace {

// SLURM's default, for machines on which scontrol does not answer.
constexpr std::chrono::seconds kUsualKillWait{30};
constexpr std::chrono::seconds kPatience{5};  // slurmctld may be busy: it has just started a job
constexpr int64_t kMost = 1'000'000'000;

std::optional<std::chrono::seconds> ReadOneTime(std::string_view text) {
  int64_t seconds = 0;
  int fields = 0;
  if (const size_t dash = text.find('-'); dash != text.npos) {
    const auto days = ParseInt(text.substr(0, dash));
    if (!days || *days < 0 || *days > kMost / 86400) return std::nullopt;
    seconds = *days * 24;  // the fields below turn hours into seconds
    text.remove_prefix(dash + 1);
    if (text.find(':') == text.rfind(':')) return std::nullopt;
  }
  for (bool more = true; more; ++fields) {
    const size_t colon = text.find(':');
    const auto field = ParseInt(text.substr(0, colon));
    if (!field || *field < 0 || *field > kMost || fields > 2) return std::nullopt;
    seconds = (fields == 0 ? seconds : seconds * 60) + *field;
    more = colon != text.npos;
    if (more) text.remove_prefix(colon + 1);
  }
  return std::chrono::seconds(seconds);
}

}  // namespace

std::optional<std::chrono::seconds> ReadTimeLeft(std::string_view text) {
  std::optional<std::chrono::seconds> least;
  for (const std::string& line : SplitLines(text)) {
    const auto left = ReadOneTime(TrimBlanks(line));
    if (left) least = std::min(*left, least.value_or(*left));
  }
  return least;
}

std::optional<std::chrono::seconds> ReadKillWait(std::string_view config) {
  size_t at = config.find("KillWait ");
  while (at != 0 && at != config.npos && config[at - 1] != '\n')
    at = config.find("KillWait ", at + 1);
  if (at == config.npos) return std::nullopt;
  const size_t value = config.find_first_not_of(" =", at + 9);
  if (value == config.npos) return std::nullopt;
  const size_t end = config.find_first_of(" \n", value);
  const auto seconds = ParseInt(config.substr(value, end == config.npos ? end : end - value));
  if (!seconds || *seconds < 0 || *seconds > kMost) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

Environment WithSlurmTimes(Environment env, bool asks_kill_wait) {
  if (!env.Get("SLURM_JOB_END_TIME")) {
    // The number of an array's last element is that of the whole array, so its name says which.
    const std::string job = SlurmJobName(env);
    const auto answer = RunSlurmCommand({"squeue", "-h", "-j", job, "-o", "%L"}, env, kPatience);
    const auto left = answer && answer->status == 0 ? ReadTimeLeft(answer->text) : std::nullopt;
    if (left) env.Set("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + left->count()));
  }
  if (asks_kill_wait) {
    const auto answer = RunSlurmCommand({"scontrol", "show", "config"}, env, kPatience);
    const auto wait = answer ? ReadKillWait(answer->text) : std::nullopt;
    env.Set("DDPRUN_KILL_WAIT", std::to_string(wait.value_or(kUsualKillWait).count()));
  }
  return env;
}

}  // namespace ddprun::launcher
