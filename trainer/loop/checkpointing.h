// The checkpoints of a run under way: which states are kept, and what is said of it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/saver.h"
#include "trainer/job/job.h"
#include "trainer/job/step_plan.h"
#include "trainer/loop/step_boundary.h"
#include "trainer/loop/step_part.h"
#include "trainer/models/model.h"
#include "trainer/report/observer.h"
#include "trainer/state/state_dict.h"

namespace ddprun::trainer {

// Where to, the same on all ranks.
struct CheckpointPlace {
  std::string run = {};      // the run's folder
  std::string folder = {};   // of this run's checkpoints
  std::string attempt = {};  // SaveRequest::attempt: of this start alone
};

// One thread. All ranks call the same methods.
class Checkpointing final : public StepPart {
 public:
  Checkpointing(const Job& job, const StepPlan& plan);
  ~Checkpointing();

  // Without it nothing is saved. `part`: this rank among those that write; nullopt: others do.
  void SaveTo(const CheckpointPlace& place, std::optional<RankPart> part);

  // This rank's votes between two steps.
  Votes OwnVotes(bool stop) const;
  // After an evaluation: whether it is the best so far, and so to be kept.
  void NoteEvaluation(const EvalReport& report);
  // Whether the last evaluation was that, and its state has not been saved since.
  bool found_best() const { return score_.has_value(); }
  // `evaluation_due`: as `unfinished` of StepBoundary.
  BoundaryActions Decide(int64_t step, const std::optional<Votes>& votes, bool evaluation_due);

  // Begins to save what `owners` name, after `step`, between two steps. `model` is one of them.
  // `evaluation_due`: of RunText.
  void Begin(int64_t step, const VisitState& owners, const Model& model, bool evaluation_due);
  // Before the parts of a step that change the state: buffers and what hooks keep, then all of it.
  void BeforeStep(const Step& step) override;
  void BeforeUpdate(const Step& step) override;
  // Whether the state after `step` is saved, or its save has begun; the run may go on from it.
  bool has_begun(int64_t step) const { return begun_.step == step && !begun_.lost; }
  // Whether the save of the state after `step` was given up, because a rank was lost.
  bool has_lost(int64_t step) const { return begun_.step == step && begun_.lost; }
  // The run goes on from a checkpoint of this step.
  void NoteRestored(int64_t step) { begun_ = {.step = step}; }
  // That the last save took until it was committed; 0: none yet.
  double save_seconds() const { return save_seconds_; }
  bool saving() const { return saver_ != nullptr && saver_->busy(); }
  // The save under way ends soon, without a checkpoint.
  void Abandon();
  // Tells what has become of saves; with `wait` also of the one under way. `observers`: nullptr on
  // all ranks but 0.
  void Report(const Observers* observers, bool wait = false);

  void NameState(StateVisitor& visitor);
  // What else ranks have in common between two steps, besides the state that is saved.
  void NameUnsaved(StateVisitor& visitor);
  // A rank was lost, and this one has what NameUnsaved names: gives up the save under way, which
  // has lost a part. The next ones are of this generation; `part`: of SaveTo.
  void GiveUp(const Observers* observers, int generation, RankPart part);
  const CheckpointPlace& place() const { return place_; }

 private:
  struct BegunSave {
    int64_t step = 0;   // also of a checkpoint that the run goes on from
    bool lost = false;  // it lacks the part of a lost rank
    std::optional<double> score = {};
  };
  void ReportOutcome(const SaveOutcome& outcome, const Observers* observers);
  double Seconds() const;
  bool HigherIsBetter() const;

  const Job& job_;
  const StepPlan plan_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  StepBoundary boundary_;
  CheckpointPlace place_;
  std::unique_ptr<BackgroundSaver> saver_;
  std::vector<at::Tensor> changed_in_backward_;  // of the state being copied
  double best_;                                  // NaN: none yet
  std::optional<double> score_ = {};             // of the state after this step, if the best
  BegunSave begun_;
  double save_seconds_ = 0;
  int64_t saves_ = 0;
  int64_t failed_ = 0;
};

}  // namespace ddprun::trainer
