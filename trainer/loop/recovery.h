// Continues a run after ranks were killed and other processes have replaced them.
//
// A step's last collective comes before its update. If a rank dies before it, all living ranks fail
// in the same collective (NodeMeeting), or give the step up earlier; none has updated, and all
// repeat the step. If a rank dies later, all finish the step, and repeat the next part of the run:
// a step, an evaluation, or the meeting at the end. Then all ranks go through every generation of
// the group until one in which no rank is lost.
//
// On several nodes the living ranks do not fail in the same collective. So a part ends with
// Commit(), before it changes anything: a rank that has come there has all that it needs. If a rank
// is lost there, some may have passed it and others not. They say so when they meet again, and the
// others finish the part, too.
//
// Ranks that divide the state of the run (Strategy::OwnState) keep it in memory that outlives them,
// after each part and before its Commit(), which then comes after the update, on one node as well.
// If a rank is lost, all ranks take back what they kept after the last part that counts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/comm/kept_memory.h"
#include "trainer/loop/checkpointing.h"
#include "trainer/loop/run_state.h"

namespace ddprun {
class HostProcessGroup;
}

namespace ddprun::trainer {

// Does nothing before Enable(). All ranks call the same methods. One thread.
class Recovery {
 public:
  // `unsaved` names the state that all ranks share besides RunState::state.
  Recovery(RunState& run, Checkpointing& checkpoints, VisitState unsaved)
      : run_(run), checkpoints_(checkpoints), unsaved_(std::move(unsaved)) {}

  // From now on lost ranks are replaced or not, if this mesh allows it. Before the first part.
  void Enable(bool replaces);
  bool is_on() const { return group_ != nullptr; }
  // Gets the state of the run from another rank. Call it on a process that replaces a lost rank.
  void JoinAsReplacement();

  // Shows the launcher the phase of this rank. A replacement shows its phase only after its first
  // part, so that the launcher does not for ever replace a rank that dies in this part.
  void EnterPhase(WorkerPhase phase);
  // Runs `part` on all ranks. If a rank is lost in it, runs it again with the replacement. `where`
  // is for people: "in step 5".
  void Repeat(const std::string& where, const std::function<void()>& part);
  // A collective at the end of a part's collectives, before the part changes anything: a part that
  // changes something calls it, and Repeat() does so after any other. If a rank is lost, returns if
  // the part counts, and otherwise throws. Does nothing on one node; with state that is kept,
  // Repeat() commits instead.
  void Commit();
  // Throws Failure if a rank was lost, because the results of this rank would be useless.
  void CheckRanks();
  bool HasLostRank() const;
  // From now on a lost rank ends the run, because soon no rank waits for another.
  void StopReplacing();
  // Waits for all ranks and for replacements of lost ranks. Afterwards no lost rank is replaced.
  void Leave();

 private:
  void MakeReplaceable(bool replaceable);
  void Agree();
  void VisitAll(StateVisitor& visitor);
  void OpenKept();
  void BeginGeneration();
  void Meet();
  void MeetAgain();
  void ShareState();
  void FinishGeneration(const std::string& where);

  RunState& run_;
  Checkpointing& checkpoints_;
  const VisitState unsaved_;
  HostProcessGroup* group_ = nullptr;  // nullptr: lost ranks are not replaced
  WorkerPhase phase_ = WorkerPhase::kStarting;
  bool is_replacement_ = false;
  bool has_state_ = true;  // of the run
  bool has_finished_a_part_ = false;
  bool is_finishing_ = false;  // soon no rank waits for another
  int64_t finished_ = 0;       // the generation in which the last part was done
  int64_t parts_ = 0;          // done
  // By rank, in the last Meet(): the number of the part that it does next, from 1 on; 0: it lacks
  // the state of the run.
  std::vector<int64_t> next_parts_;
  bool has_committed_ = false;
  std::optional<KeptMemory> kept_;  // from the first part on, if ranks have state of their own
  bool has_met_ = false;            // again, since a rank was lost, without ShareState() yet
};

}  // namespace ddprun::trainer
