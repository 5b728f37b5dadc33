// Decides which states of a run are saved, saves them, and reports the saves.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/saver.h"
#include "trainer/job/early_stopping.h"
#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"
#include "trainer/loop/step_boundary.h"
#include "trainer/loop/step_part.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"
#include "trainer/report/run_requests.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// The place of checkpoints, equal on all ranks.
struct CheckpointPlace {
  std::string run = {};         // the run's folder
  std::string folder = {};      // of this run's checkpoints
  std::string attempt = {};     // SaveRequest::attempt: of this start alone
  bool of_another_run = false;  // the checkpoint from which this run begins
};

// One thread. All ranks call the same methods.
class Checkpointing final : public StepPart {
 public:
  // `plan` gets fewer steps if evaluations no longer improve; it must outlive this.
  Checkpointing(const Job& job, StepPlan& plan);
  ~Checkpointing();

  // Enables saving. `part` is this rank among the ranks that write; nullopt: it does not write.
  void SaveTo(const CheckpointPlace& place, std::optional<RankPart> part);

  // On rank 0: people may ask for a save or for the end.
  void Ask(std::shared_ptr<RunRequests> requests) { requests_ = std::move(requests); }
  // Returns, equally on all ranks, whether the run stops because people asked for its end.
  bool ended() const { return ended_; }

  // Returns this rank's votes between two steps.
  Votes OwnVotes(bool stop) const;
  // Call it after an evaluation. If it is the best so far, Decide() saves the state.
  void NoteEvaluation(const EvalReport& report);
  // Returns whether an evaluation was the best so far, and no save has begun since.
  bool found_best() const { return score_.has_value(); }
  // Decides after `step`. `evaluation_due` is the `unfinished` of StepBoundary::Decide().
  BoundaryActions Decide(int64_t step, const std::optional<Votes>& votes, bool evaluation_due);

  // Begins to save the state that `owners` name, between two steps. `model` is one of the owners.
  // `evaluation_due` is the argument of RunText().
  void Begin(int64_t step, const VisitState& owners, const Model& model, bool evaluation_due);
  // Wait until a save has copied what changes next: buffers and state of hooks, then all state.
  void BeforeStep(const Step& step) override;
  void BeforeUpdate(const Step& step) override;
  // Returns whether a save of the state after `step` has begun, or the run resumed from it.
  bool has_begun(int64_t step) const { return begun_.step == step && !begun_.lost; }
  // Returns whether the save of the state after `step` was given up, because a rank was lost.
  bool has_lost(int64_t step) const { return begun_.step == step && begun_.lost; }
  // Notes that the run resumes from a checkpoint of this step.
  void NoteRestored(int64_t step);
  // Returns how long the last save took until its commit; 0 before the first save.
  double save_seconds() const { return save_seconds_; }
  bool saving() const { return saver_ != nullptr && saver_->busy(); }
  // Ends the running save soon, without a checkpoint.
  void Abandon();
  // Reports finished saves. With `wait`, waits for the running save and reports it, too.
  // `observers` is nullptr on all ranks but 0.
  void Report(const Observers* observers, bool wait = false);

  void NameState(StateVisitor& visitor) override;
  // Names the state that all ranks share between two steps but no checkpoint has.
  void NameUnsaved(StateVisitor& visitor);
  // Gives up the running save, which lacks the part of a lost rank. Later saves belong to
  // `generation`. `part` is the argument of SaveTo(). Call it after NameUnsaved().
  void GiveUp(const Observers* observers, int generation, RankPart part);
  const CheckpointPlace& place() const { return place_; }

 private:
  struct Score {
    double value = 0;
    double best_before = 0;  // NaN: none
  };
  struct BegunSave {
    int64_t step = 0;   // also of a checkpoint from which the run resumed
    bool lost = false;  // it lacks the part of a lost rank
    bool done = false;  // on all ranks
    std::optional<Score> score = {};
  };
  void ReportOutcome(const SaveOutcome& outcome, const Observers* observers);
  double Seconds() const;

  const Job& job_;
  StepPlan& plan_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  StepBoundary boundary_;
  CheckpointPlace place_;
  std::unique_ptr<BackgroundSaver> saver_;
  std::vector<at::Tensor> changed_in_backward_;  // of the state that a save copies
  EarlyStopping early_;
  bool tells_early_end_ = false;
  double best_;                      // NaN: none yet
  std::optional<Score> score_ = {};  // of the state after this step, if the best
  BegunSave begun_;
  double save_seconds_ = 0;
  std::shared_ptr<RunRequests> requests_;
  bool ended_ = false;
  int64_t saves_ = 0;
  int64_t failed_ = 0;
};

}  // namespace ddprun::trainer
