#include "trainer/loop/recovery.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/comm/host_process_group.h"
#include "trainer/compute/matmul.h"
#include "trainer/loop/before_part.h"
#include "trainer/parallel/mesh_collectives.h"
#include "trainer/parallel/peer_state.h"

namespace ddprun::trainer {

namespace {

// Returns the seconds since the last loss of a rank before this generation.
std::string SecondsSinceLoss(const FlightRecorder& recorder, int generation) {
  std::chrono::steady_clock::time_point last = {};
  for (const LostWorker& lost : recorder.LostWorkersSince(generation - 1))
    last = std::max(last, lost.time);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - last;
  return std::to_string(time.count());
}

bool LostAnother(const Failure& failure) {
  return failure.error().code == Code::kRankLost;
}

}  // namespace

void Recovery::Enable(bool replaces) {
  group_ = nullptr;
  if (!replaces) return;
  // All axes must use one group, and a replacement begins on the CPU.
  if (run_.mesh.data.group != run_.mesh.control || !run_.mesh.device.is_cpu()) return;
  group_ = dynamic_cast<HostProcessGroup*>(run_.mesh.control.get());
}

void Recovery::EnterPhase(WorkerPhase phase) {
  phase_ = phase;
  if (is_replacement_ && !has_finished_a_part_ && !is_finishing_) return;
  if (run_.recorder != nullptr) run_.recorder->SetPhase(phase);
}

void Recovery::MakeReplaceable(bool replaceable) {
  if (group_ == nullptr) return;
  run_.recorder->SetRecoveryGeneration(
      replaceable ? std::optional(group_->generation()) : std::nullopt, kept_.has_value());
}

void Recovery::StopReplacing() {
  is_finishing_ = true;
  MakeReplaceable(false);
}

void Recovery::Leave() {
  if (group_ == nullptr) return;
  is_finishing_ = true;
  Repeat("after step " + std::to_string(run_.step), [this] {
    MakeReplaceable(false);
    run_.WaitForAllRanks();
  });
}

void Recovery::CheckRanks() {
  if (group_ != nullptr) group_->CheckRanks();
}

bool Recovery::HasLostRank() const {
  return group_ != nullptr && run_.recorder->IsAnyLost(group_->generation());
}

void Recovery::Repeat(const std::string& where, const std::function<void()>& part) {
  if (group_ == nullptr) return part();
  if (has_finished_a_part_ && !is_finishing_) MakeReplaceable(true);
  OpenKept();
  const BeforePart before(run_.model->buffers(), [this](StateVisitor& visitor) {
    if (kept_) VisitAll(visitor);  // otherwise a part changes nothing before it counts
  });
  for (;;) {
    try {
      if (has_met_) ShareState();
      has_committed_ = false;
      part();
      if (kept_) kept_->Keep(parts_ + 1, run_.strategy->OwnState());
      if (!has_committed_) Agree();
      return FinishGeneration(where);
    } catch (const Failure& failure) {
      if (!LostAnother(failure)) throw;
    }
    if (!has_met_) MeetAgain();
    before.PutBack();
  }
}

void Recovery::Commit() {
  if (!kept_) Agree();
}

void Recovery::Agree() {
  has_committed_ = true;
  if (group_ == nullptr || (group_->nodes() == 1 && !kept_)) return;
  try {
    return run_.WaitForAllRanks();
  } catch (const Failure& failure) {
    if (!LostAnother(failure)) throw;
    MeetAgain();
    // Ranks that have passed wait in ShareState(), to which this rank comes with its next part.
    if (std::ranges::max(next_parts_) <= parts_ + 1) throw;
  }
}

void Recovery::JoinAsReplacement() {
  is_replacement_ = true;
  has_state_ = false;
  for (bool again = false;; again = true) {
    try {
      if (again) BeginGeneration();
      Meet();
      return ShareState();
    } catch (const Failure& failure) {
      if (!LostAnother(failure)) throw;
    }
  }
}

void Recovery::VisitAll(StateVisitor& visitor) {
  run_.state(visitor);
  unsaved_(visitor);
}

void Recovery::OpenKept() {
  if (kept_ || run_.strategy->OwnState().empty()) return;
  kept_.emplace(*group_, /*forgets=*/!is_replacement_);
}

void Recovery::BeginGeneration() {
  run_.log.Debug("a rank was lost",
                 {{"steps_done", std::to_string(run_.step)},
                  {"seconds_ago", SecondsSinceLoss(*run_.recorder, group_->generation() + 1)}});
  group_->Renew();
  run_.starting = true;
  run_.mesh.SetTimeout(std::chrono::seconds(run_.job.config.comm.init_timeout_seconds));
}

// A collective, after which no rank uses the memory of the lost rank.
void Recovery::Meet() {
  const Axis& world = run_.mesh.world;
  const at::Tensor numbers = at::zeros({world.size}, at::kLong);
  auto* const all = numbers.mutable_data_ptr<int64_t>();
  all[world.rank] = has_state_ ? parts_ + 1 : 0;
  AllReduceOnHost(run_.mesh.control.get(), numbers);
  next_parts_.assign(all, all + world.size);
  has_met_ = true;
}

// Ends all running operations, and meets the other ranks in the next generation in which none is
// lost.
void Recovery::MeetAgain() {
  for (has_met_ = false; !has_met_;) {
    BeginGeneration();
    try {
      Meet();
    } catch (const Failure& failure) {
      if (!LostAnother(failure)) throw;
    }
  }
}

// A collective. Afterwards all ranks have the state of the run.
void Recovery::ShareState() {
  const Axis& world = run_.mesh.world;
  has_met_ = false;  // whatever happens now, they have to meet again before they come back
  const auto newest = std::ranges::max_element(next_parts_);
  if (*newest == 0) {
    throw Failure(Error{.title = "NO RANK IS LEFT",
                        .where = "rank " + std::to_string(world.rank),
                        .what = "All ranks were killed that had the state of the run.",
                        .hint = "It goes on from its newest checkpoint, if restarts are left "
                                "(--max_restarts).",
                        .page = "no-rank-left"});
  }
  const auto giver = static_cast<int>(newest - next_parts_.begin());
  const auto since = [this] { return SecondsSinceLoss(*run_.recorder, group_->generation()); };
  run_.log.Debug("meeting the others in a new generation", {{"after_seconds", since()}});
  run_.strategy->Rejoin(giver);
  CopyState(*group_, giver, !has_state_, [this](StateVisitor& visitor) {
    VisitAll(visitor);
    auto engine = static_cast<int64_t>(CurrentMatmulEngine());
    visitor.Section("recovery.");
    visitor.Number("engine", engine);
    visitor.Number("finished", finished_);
    visitor.Number("parts", parts_);
    UseMatmulEngine(static_cast<MatmulEngine>(engine));
  });
  OpenKept();
  if (kept_) {
    kept_->TakeBack(parts_, run_.strategy->OwnState());
    run_.strategy->ShareOwnState();
  }
  run_.log.Debug("state shared", {{"from", std::to_string(giver)}, {"after_seconds", since()}});
  has_state_ = true;
  checkpoints_.GiveUp(run_.observers, group_->generation(),
                      {.rank = world.rank, .size = world.size});
  if (next_parts_[0] > 0) return;
  // The save of the lost rank 0 stays unfinished. After this wait all other ranks have left it.
  run_.WaitForAllRanks();
  if (world.rank != 0) return;
  const Status removed = RemoveUnfinished(checkpoints_.place().folder, run_.plan.total_steps);
  if (!removed.ok()) {
    run_.log.Warning("a part of a checkpoint stays: " + removed.error().what);
  }
}

// Notes that all ranks have done a part, and reports the ranks that were replaced.
void Recovery::FinishGeneration(const std::string& where) {
  ++parts_;
  if (!std::exchange(has_finished_a_part_, true)) EnterPhase(phase_);
  const int generation = group_->generation();
  if (generation == finished_) return;
  group_->FreeOldGenerations();
  for (const LostWorker& worker : run_.recorder->LostWorkersSince(static_cast<int>(finished_))) {
    if (run_.observers == nullptr || worker.generation > generation) continue;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - worker.time;
    std::array<char, 64> seconds;
    std::snprintf(seconds.data(), seconds.size(), "%.2f", time.count());
    run_.observers->Note("rank " + std::to_string(worker.rank) + " was lost: recovered in " +
                         seconds.data() + " s, " + where);
  }
  finished_ = generation;
}

}  // namespace ddprun::trainer
