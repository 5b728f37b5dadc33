// The flight recorder keeps what a worker does in memory that outlives the worker. The agent makes
// one file for the workers of a node and passes it on as DDPRUN_FLIGHT_RECORDER_FD. Each worker
// writes to its own page without lock or system call; the agent reads the pages if a job hangs.
//
// A page holds the worker's step and phase, its last kRecordedCollectives collectives, its last
// kRecordedGroups groups that have only some of the ranks, and the last kRecordedLines lines of its
// log. Times are of the steady clock and exact to a timer tick (1 to 4 ms), because that is cheap.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/lost_workers.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

inline constexpr std::string_view kFlightRecorderVariable = "DDPRUN_FLIGHT_RECORDER_FD";
// The worker's page, if it is not that of its local rank.
inline constexpr std::string_view kFlightPageVariable = "DDPRUN_FLIGHT_PAGE";
inline constexpr size_t kRecordedCollectives = 64;
inline constexpr size_t kRecordedGroups = 256;
inline constexpr size_t kRecordedLines = 8;
inline constexpr size_t kRecordedLineBytes = 160;  // longer ones are cut

enum class CollectiveKind : uint8_t {
  kOther,
  kAllReduce,
  kBroadcast,
  kAllGather,
  kBarrier,
  kReduce,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  // Waits for a message. Collective::number is the sender's rank in the job.
  kReceive,
  kReceiveFromAny
};
constexpr bool IsMessage(CollectiveKind kind) {
  return kind >= CollectiveKind::kReceive;
}
enum class CollectiveState : uint8_t {
  kNone,
  kScheduled,  // waits for its turn in this process
  kStarted,    // copies or computes
  kWaiting,    // waits for another rank
  kCompleted,
  kFailed
};
enum class WorkerPhase : uint8_t { kStarting, kTraining, kEvaluating, kFinishing };

enum class StepPhase : uint8_t;  // base/flight_notes.h
// Returns "all_reduce", "receive from rank"; "collective" for kOther.
std::string_view NameOf(CollectiveKind kind);

// The low 13 bits of a group's number are 0 for the group of all ranks and a count for others. The
// upper bits differ each time a process makes its groups again.
inline constexpr int kPartGroupBits = 13;
constexpr bool IsOfAllRanks(uint16_t group) {
  return (group & ((1 << kPartGroupBits) - 1)) == 0;
}

struct Collective {
  CollectiveKind kind = CollectiveKind::kOther;
  uint16_t group = 0;          // number of the group, equal on its ranks; see IsOfAllRanks
  uint64_t number = 0;         // counts the group's collectives, equal on its ranks
  std::string_view type = {};  // of the elements, at most 8 characters: "float32"
  uint64_t elements = 0;       // 0 if there is no type but only bytes
  uint64_t bytes = 0;
};

struct FlightPage;

// Creates a file for `local_world_size` workers (close-on-exec). No process can shorten it, so that
// reading it is safe even if a worker misbehaves.
Result<UniqueFd> CreateFlightRecorderFile(int local_world_size);

// The worker's side: one per process. Methods cost a few nanoseconds and never fail.
class FlightRecorder {
 public:
  // Returns an Error if `file` is not a recorder's file or has no page for `local_rank`.
  static Result<std::unique_ptr<FlightRecorder>> Attach(const UniqueFd& file,
                                                        int local_rank,
                                                        int rank);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Called by the training loop's thread. `step` is the current optimizer step, counted from 1.
  void SetPhase(WorkerPhase phase);
  void SetStep(int64_t step);
  StepPhase SetStepPhase(StepPhase phase);  // returns the phase of before
  // Notes that this worker is in `group` (Collective::group) of some of the ranks. Any thread.
  void NoteGroup(uint16_t group);
  // Notes a line of the log, without newline. Any thread.
  void NoteLine(std::string_view line);
  // If another worker is lost in `generation`, this worker continues in the next one. nullopt means
  // that it cannot continue, or would not notice. `keeps_state`: its replacement needs memory of
  // this node.
  void SetRecoveryGeneration(std::optional<int> generation, bool keeps_state = false);
  bool can_continue() const;
  // Returns whether the worker's process was lost in `generation` or later. Any thread.
  bool IsLost(int local_rank, int generation) const;
  // The same for any worker of any node.
  bool IsAnyLost(int generation) const;
  std::vector<LostWorker> LostWorkersSince(int generation) const;
  // Counts work that leaves no other trace: a micro-batch, a batch of an evaluation.
  void NoteProgress();

  // Sets the bucket of gradients of the next collective.
  void SetBucket(int bucket) { next_bucket_.store(bucket, std::memory_order_relaxed); }
  // Notes that a collective waits for its turn. Returns its ticket, counted from 1.
  uint64_t Schedule(const Collective& collective);

  // One thread at a time may use a ticket; several threads may use different tickets. Start() may
  // be called again, for a later part of the collective.
  void Start(uint64_t ticket, const Collective& collective);
  // `waits` means that the collective waits for another rank.
  void SetWaiting(uint64_t ticket, bool waits);
  void End(uint64_t ticket, bool succeeded);

  // Returns "step 57, bucket 3" of a started collective, as far as they are known; may be empty.
  std::string StepAndBucket(uint64_t ticket) const;

 private:
  FlightRecorder(FlightPage* pages, int count, int own);

  FlightPage* const pages_;  // of all workers of the node
  const int count_;
  FlightPage& page_;
  std::atomic<int> next_bucket_ = -1;
};

}  // namespace ddprun
