// Steps of SLURM: one agent a node, or one agent a task if a node has several tasks.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/cpus.h"
#include "base/slurm_step.h"
#include "base/text.h"
#include "launcher/cluster/cluster.h"

namespace ddprun::launcher {

namespace {

constexpr int kMaxTasks = 1 << 16;

// Returns whether SLURM shows each task fewer GPUs than its node has tasks, as --gpus-per-task=1,
// --ntasks-per-gpu=1 and most forms of --gpu-bind do. SLURM_GPUS_PER_TASK does not say it: srun
// does not set it, and with --gpu-bind=none the tasks of a batch script that has it see all GPUs.
bool HidesGpus(const SlurmStep& step, const Environment& env) {
  const std::string visible = env.GetOr("CUDA_VISIBLE_DEVICES", "");
  if (visible.empty()) return false;
  const int64_t seen = 1 + std::ranges::count(visible, ',');
  // A task that is alone on its node sees as much as a task of another node.
  if (step.tasks_here() == 1) return seen == 1;
  const int64_t of_node = ParseInt(env.GetOr("SLURM_GPUS_ON_NODE", "")).value_or(0);
  return seen < std::min<int64_t>(step.tasks_here(), of_node);
}

// Returns nullopt if no agent of the step shares its host with another: hosts are then counted like
// agents. A worker that sees no GPU of the others has its own to itself, like a host of its own.
std::optional<HostShare> ShareOf(const SlurmStep& step, const Environment& env) {
  if (static_cast<size_t>(step.num_tasks) == step.nodes.size()) return std::nullopt;
  const int node = static_cast<int>(step.node);
  HostShare share{.first_local_rank = step.local_task,
                  .workers = step.tasks_here(),
                  .host = node,
                  .hosts = static_cast<int>(step.nodes.size()),
                  .threads = 0};
  const auto cores = static_cast<int64_t>(AllowedCpus().size());
  const auto of_node = ParseInt(env.GetOr("SLURM_CPUS_ON_NODE", ""));
  // A task that is not bound to cores of its own shares those of the node.
  if (of_node && cores >= *of_node) {
    share.threads = static_cast<int>(std::max<int64_t>(1, *of_node / step.tasks_here()));
  }
  if (!HidesGpus(step, env)) return share;
  share.first_local_rank = 0;
  share.workers = 1;
  share.host = step.place();
  share.hosts = step.num_tasks;
  return share;
}

// Returns a warning if the step has fewer cores than the batch script asked for.
std::string CoresNote(const Environment& env) {
  const auto asked = ParseInt(env.GetOr("SLURM_CPUS_PER_TASK", ""));
  const auto have = static_cast<int64_t>(AllowedCpus().size());
  if (!asked || *asked <= have || env.Get("SRUN_CPUS_PER_TASK")) return "";
  return "the batch script asked for " + CountText(*asked, "core") + " a task and this task has " +
         std::to_string(have) +
         ": since SLURM 22.05 srun needs --cpus-per-task itself "
         "(or export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK)";
}

// Returns a place of one agent for a batch script or salloc's shell, with a note if the job has
// several nodes, or if the shell may be on none of them; nullopt outside of SLURM.
std::optional<ClusterPlace> PlaceWithoutStep(const Environment& env) {
  const std::optional<std::string> job = env.Get("SLURM_JOB_ID");
  const auto nodes = ParseInt(env.GetOr("SLURM_JOB_NUM_NODES", "1"));
  // salloc's shell runs where the user has typed salloc, often on a login node.
  const bool is_node = env.Get("SLURMD_NODENAME").has_value();
  if (!job || (is_node && nodes.value_or(1) < 2)) return std::nullopt;
  ClusterPlace place;
  place.notes.push_back("inside SLURM job " + MakePrintable(*job) + " of " +
                        CountText(nodes.value_or(1), "node") + ", but not under srun: " +
                        (is_node ? "this node alone. For all nodes: srun ddprun ..."
                                 : "the machine of salloc's shell alone. For the job's nodes: srun "
                                   "ddprun ..."));
  return place;
}

// Returns a warning in a shell of a step of several tasks.
std::string ShellNote(const SlurmStep& step, const Environment& env) {
  if (step.num_tasks < 2 || !env.Get("SLURM_PTY_PORT") || ::isatty(STDIN_FILENO) == 0) return "";
  return "in a shell of srun --pty no other of the step's " + CountText(step.num_tasks, "agent") +
         " comes: --standalone trains without them";
}

Result<std::optional<ClusterPlace>> FindSlurmPlace(const Environment& env) {
  if (!IsSlurmStep(env)) return PlaceWithoutStep(env);
  DDPRUN_ASSIGN(const SlurmStep step, ReadSlurmStep(env, kMaxTasks));
  const std::string id = env.GetOr("SLURM_CLUSTER_NAME", "slurm") + "." + step.name;
  ClusterPlace place{.started_by = "SLURM step " + MakePrintable(step.name),
                     .agents = step.num_tasks,
                     .agent = step.place(),
                     .endpoint = {step.nodes.front(), PortOf(id)},
                     .other_ports = PortsAfter(id),
                     .run_id = "slurm." + id + "." + env.GetOr("SLURM_RESTART_COUNT", "0"),
                     .share = ShareOf(step, env),
                     .one_agent_a_host = "srun --ntasks-per-node=1",
                     .more_gpus = "#SBATCH --gpus-per-node="};
  const auto gpus = ParseInt(env.GetOr("SLURM_GPUS_ON_NODE", "0")).value_or(0);
  if (!place.share) place.gpus = static_cast<int>(std::clamp<int64_t>(gpus, 0, INT32_MAX));
  if (std::string note = CoresNote(env); !note.empty()) place.notes.push_back(std::move(note));
  if (std::string note = ShellNote(step, env); !note.empty()) place.notes.push_back(note);
  if (place.share && step.tasks_here() > 1 && place.share->workers == 1) {
    place.notes.emplace_back(
        "SLURM hides the other GPUs of the node from each worker (--gpus-per-task, --gpu-bind), so "
        "NCCL may not use peer access: --gpus-per-node with --ntasks-per-node keeps it");
  }
  return std::optional(std::move(place));
}

}  // namespace

const Cluster kSlurm = {"slurm", FindSlurmPlace};

}  // namespace ddprun::launcher
