// The flight recorder: what a worker is doing, in memory that outlives it. The agent makes one
// file for the workers of a node and passes it on as DDPRUN_FLIGHT_RECORDER_FD; each worker writes
// to a page of its own, without lock or system call, and the agent reads them all when a job hangs.
//
// A page holds the worker's step and phase, its last kRecordedCollectives collectives, the last
// kRecordedGroups groups of some of the ranks that it has been in and the last kRecordedLines lines
// of its log. Times are of the steady clock, exact to a timer tick (1 to 4 ms), which costs little.
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
#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

inline constexpr std::string_view kFlightRecorderVariable = "DDPRUN_FLIGHT_RECORDER_FD";
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
  // Waits for messages. Collective::number is the rank, in the job, that sends it.
  kReceive,
  kReceiveFromAny
};
constexpr bool IsMessage(CollectiveKind kind) {
  return kind >= CollectiveKind::kReceive;
}
enum class CollectiveState : uint8_t {
  kNone,
  kScheduled,  // waits for its turn in this process
  kStarted,    // works on its own data, or on that of all
  kWaiting,    // at the meeting: some rank has not come
  kCompleted,
  kFailed
};
enum class WorkerPhase : uint8_t { kStarting, kTraining, kEvaluating, kFinishing };

// "all_reduce", "receive from rank"; "collective" for kOther.
std::string_view NameOf(CollectiveKind kind);

// Other groups than those of all ranks have numbers in the low 13 bits; a process may make the
// group of all ranks anew, and all of them again: the upper bits tell them apart.
inline constexpr int kPartGroupBits = 13;
constexpr bool IsOfAllRanks(uint16_t group) {
  return (group & ((1 << kPartGroupBits) - 1)) == 0;
}

struct Collective {
  CollectiveKind kind = CollectiveKind::kOther;
  uint16_t group = 0;          // the same on all ranks of the process group; see IsOfAllRanks
  uint64_t number = 0;         // of this collective within the group, the same on all its ranks
  std::string_view type = {};  // of the elements, at most 8 characters: "float32"
  uint64_t elements = 0;       // 0 with no type: just bytes
  uint64_t bytes = 0;
};

struct FlightPage;

// A process that a signal has ended, in whose place another one comes.
struct LostWorker {
  int local_rank = 0;
  std::chrono::steady_clock::time_point time = {};
};

// A new file for that many workers (close-on-exec). It cannot be made shorter, so reading it is
// safe whatever a worker does.
Result<UniqueFd> CreateFlightRecorderFile(int local_world_size);

// Tells the others that the process of that worker, which has ended, takes part in no generation
// from this one on: another process does. Generations count from 0.
Status MarkLost(const UniqueFd& file, int local_rank, int generation);

// The worker's side: one per process. Methods cost a few nanoseconds and never fail.
class FlightRecorder {
 public:
  // An Error when `file` is no recorder's file, or has no page for `local_rank`.
  static Result<std::unique_ptr<FlightRecorder>> Attach(const UniqueFd& file,
                                                        int local_rank,
                                                        int rank);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // The thread of the training loop. SetStep: the optimizer step under way, counted from 1.
  void SetPhase(WorkerPhase phase);
  void SetStep(int64_t step);
  // This worker is in that group of some of the ranks (Collective::group) from now on. Any thread.
  void NoteGroup(uint16_t group);
  // A line of the log, without newline. Any thread.
  void Say(std::string_view line);
  // This worker goes on in the next generation if another one is lost in this one; nullopt: it
  // would not notice, or could not.
  void SetRecovers(std::optional<int> generation);
  // Whether the process of that worker has been lost in this generation. Any thread.
  bool IsLost(int local_rank, int generation) const;
  std::vector<LostWorker> LostIn(int generation) const;
  // Work that leaves no other trace has gone on: a micro-batch, a batch of an evaluation.
  void NoteProgress();

  // The next collective is about this bucket of gradients.
  void SetBucket(int bucket) { next_bucket_.store(bucket, std::memory_order_relaxed); }
  // A collective is in line: its ticket, counted from 1.
  uint64_t Schedule(const Collective& collective);

  // Each ticket by one thread at a time; those of several groups by several threads. Start() may
  // come again, for a later part.
  void Start(uint64_t ticket, const Collective& collective);
  // It waits for another rank, or works on.
  void SetWaiting(uint64_t ticket, bool waits);
  void End(uint64_t ticket, bool well);

  // "step 57, bucket 3" of a collective that has been started, as far as it is known; may be empty.
  std::string Whereabouts(uint64_t ticket) const;

 private:
  FlightRecorder(FlightPage* pages, int count, int own);

  FlightPage* const pages_;  // of all workers of the node
  const int count_;
  FlightPage& page_;
  std::atomic<int> next_bucket_ = -1;
};

}  // namespace ddprun
