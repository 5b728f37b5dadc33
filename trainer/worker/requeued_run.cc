#include "trainer/worker/requeued_run.h"

#include <string>
#include <vector>

#include "base/failure.h"
#include "trainer/parallel/whole_state.h"

namespace ddprun::trainer {

namespace {

std::string NodeName(const Environment& environment) {
  return environment.GetOr("SLURMD_NODENAME", "this node");
}

// Returns "node1 has FOLDER/step-5", or "" if this node has no checkpoint of the run.
std::string FindHere(const Config& config, const Environment& environment) {
  try {
    const RunStart found = FindRunStart(config, environment);
    if (!found.checkpoint) return "";
    return NodeName(environment) + " has " + found.checkpoint->path();
  } catch (const Failure&) {
    return "";  // rank 0's folder decides; this node only helps to find a better one
  }
}

}  // namespace

bool IsRequeued(const Environment& environment) {
  return environment.Get("SLURM_JOB_ID").has_value() &&
         ValueOrThrow(environment.GetInt("SLURM_RESTART_COUNT", 0, 0, 1 << 30)) > 0;
}

void AskNodesForRun(const Config& config,
                    const RankInfo& rank,
                    const Environment& environment,
                    RunStart& start,
                    c10d::Backend* control) {
  if (!IsRequeued(environment) || config.run.resume == "never") return;
  const bool begins_anew = rank.rank == 0 && !start.checkpoint;
  const std::string node = begins_anew ? NodeName(environment) : "";
  const std::string missing_on = ExchangeTexts(control, node)[0];
  if (missing_on.empty()) return;
  const bool looks = rank.local_rank == 0 && rank.rank > 0;
  const std::string found = looks ? FindHere(config, environment) : "";
  for (const std::string& other : ExchangeTexts(control, found)) {
    if (other.empty()) continue;
    throw FailureOfAllRanks(
        Error{.code = Code::kUsage,
              .title = "NO SHARED FOLDER",
              .where = missing_on,
              .what = "SLURM has started this job again. Rank 0 runs on " + missing_on +
                      ", which does not have the run's\ncheckpoints, and " + other +
                      ". The run would begin again at step 1.",
              .hint = "Name a folder that all nodes share (run.output_dir). To go on from that "
                      "checkpoint, copy its\nrun folder there, and start with --resume.",
              .page = "no-shared-folder"});
  }
  if (!begins_anew || !start.folder.made) return;
  if (const auto others = FoldersOfOtherConfigs(config, environment); !others.empty()) {
    start.notes.push_back(
        "SLURM has started this job again, with a config that differs from that of " +
        others.back() + ": training begins at step 1. To go on with that run: " +
        "ddprun --resume " + others.back());
    return;
  }
  start.notes.push_back(
      "SLURM has started this job again, and its nodes have no checkpoint of the "
      "run: training begins at step 1. If an earlier start has saved one, it is "
      "on another node: run.output_dir has to be a folder that all nodes share.");
}

}  // namespace ddprun::trainer
