#include "base/slurm_step.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "base/node_list.h"
#include "base/text.h"

namespace ddprun {

namespace {

constexpr std::string_view kTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

// The numbers of steps that no user starts: batch script, external processes, salloc's shell.
constexpr int64_t kFirstSpecialStep = 0xffff'fff0;

Error Contradiction(std::string_view where, std::string what) {
  return Error{.code = Code::kUsage,
               .title = "SLURM'S VARIABLES CONTRADICT",
               .where = std::string(where),
               .what = std::move(what),
               .hint =
                   "A variable of SLURM's was changed or comes from another job. Start the "
                   "program with srun,\nor remove all variables that begin with SLURM_.",
               .page = "slurm-step"};
}

// Reads "2(x3),1": tasks per node, with equal neighbours combined.
std::optional<std::vector<int>> ReadTasksPerNode(std::string_view text, size_t max_nodes) {
  std::vector<int> tasks;
  for (const std::string_view entry : SplitAt(text, ',')) {
    const size_t repeat = entry.find("(x");
    const std::optional<int64_t> count = ParseInt(entry.substr(0, repeat));
    std::optional<int64_t> nodes = 1;
    if (repeat != entry.npos) {
      if (!entry.ends_with(')')) return std::nullopt;
      nodes = ParseInt(entry.substr(repeat + 2, entry.size() - repeat - 3));
    }
    if (!count || *count < 1 || *count > INT32_MAX || !nodes || *nodes < 1) return std::nullopt;
    if (static_cast<size_t>(*nodes) > max_nodes - tasks.size()) return std::nullopt;
    tasks.insert(tasks.end(), static_cast<size_t>(*nodes), static_cast<int>(*count));
  }
  return tasks;
}

Status ReadNodes(const Environment& env, SlurmStep& step) {
  const std::string own = env.GetOr("SLURMD_NODENAME", "");
  const bool has_list = env.Get("SLURM_STEP_NODELIST").has_value();
  const std::string name = has_list ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const std::string list = env.GetOr(name, own.empty() ? "localhost" : own);
  DDPRUN_ASSIGN(step.nodes, ParseNodeList(list, name));
  const auto found = std::ranges::find(step.nodes, own);
  if (found != step.nodes.end()) {
    step.node = static_cast<size_t>(found - step.nodes.begin());
    return {};
  }
  DDPRUN_ASSIGN(const int64_t id, env.GetInt("SLURM_NODEID", 0, 0, std::ssize(step.nodes) - 1));
  step.node = static_cast<size_t>(id);
  return {};
}

}  // namespace

int SlurmStep::place() const {
  return std::accumulate(tasks.begin(), tasks.begin() + static_cast<ptrdiff_t>(node), local_task);
}

bool IsSlurmStep(const Environment& env) {
  const std::optional<int64_t> step = ParseInt(env.GetOr("SLURM_STEP_ID", ""));
  return step && *step >= 0 && *step < kFirstSpecialStep;
}

std::string SlurmStepName(const Environment& env) {
  return env.GetOr("SLURM_JOB_ID", "0") + "." + env.GetOr("SLURM_STEP_ID", "0");
}

Result<SlurmStep> ReadSlurmStep(const Environment& env, int max_tasks) {
  SlurmStep step;
  step.name = SlurmStepName(env);
  DDPRUN_ASSIGN(const int64_t num_tasks, env.GetInt("SLURM_STEP_NUM_TASKS", 1, 1, max_tasks));
  DDPRUN_ASSIGN(const int64_t task, env.GetInt("SLURM_PROCID", 0, 0, num_tasks - 1));
  step.num_tasks = static_cast<int>(num_tasks);
  step.task = static_cast<int>(task);
  DDPRUN_TRY(ReadNodes(env, step));
  const std::string text = env.GetOr(kTasksPerNode, "");
  // Without the list, all tasks are on one node, or there is one on each.
  const auto spread = std::vector<int>(
      step.nodes.size(), std::max(1, step.num_tasks / static_cast<int>(step.nodes.size())));
  const auto tasks = text.empty() ? spread : ReadTasksPerNode(text, step.nodes.size());
  if (!tasks || tasks->size() != step.nodes.size() ||
      std::accumulate(tasks->begin(), tasks->end(), int64_t{0}) != num_tasks) {
    return Contradiction(kTasksPerNode,
                         std::string(kTasksPerNode) + " is \"" + MakePrintable(text) + "\" for " +
                             CountText(num_tasks, "task") + " on " +
                             CountText(std::ssize(step.nodes), "node") +
                             "; expected a number of tasks for each node, as in 2(x3),1.");
  }
  step.tasks = *tasks;
  DDPRUN_ASSIGN(const int64_t local, env.GetInt("SLURM_LOCALID", 0, 0, step.tasks_here() - 1));
  step.local_task = static_cast<int>(local);
  return step;
}

}  // namespace ddprun
