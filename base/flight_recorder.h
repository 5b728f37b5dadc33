// The flight recorder: what a worker is doing, in memory that outlives it. The agent makes one
// file for the workers of a node and passes it on as DDPRUN_FLIGHT_RECORDER_FD; each worker writes
// to a page of its own, without a lock and without a system call, and the agent reads them all when
// a job hangs.
//
// A page holds the worker's step and phase and its last kRecordedCollectives collectives. Times are
// of the steady clock, as exact as the kernel's timer tick (1 to 4 ms): an exact clock costs more
// than all the rest.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun {

inline constexpr std::string_view kFlightRecorderVariable = "DDPRUN_FLIGHT_RECORDER_FD";
inline constexpr size_t kRecordedCollectives = 64;

enum class CollectiveKind : uint8_t { kOther, kAllReduce, kBroadcast, kAllGather, kBarrier };
enum class CollectiveState : uint8_t {
  kNone,
  kScheduled,  // waits for its turn in this process
  kStarted,    // works on its own data, or on that of all
  kWaiting,    // at the meeting: some rank has not come
  kCompleted,
  kFailed
};
enum class WorkerPhase : uint8_t { kStarting, kTraining, kEvaluating, kFinishing };

// "all_reduce"; "collective" for kOther.
std::string_view NameOf(CollectiveKind kind);

struct Collective {
  CollectiveKind kind = CollectiveKind::kOther;
  std::string_view type;  // of the elements, 8 characters at most: "float32"; empty: just bytes
  uint64_t elements = 0;
  uint64_t bytes = 0;
  uint16_t group = 0;  // which process group; 0: that of all ranks
};

struct FlightPage;

// A new file for that many workers (close-on-exec). It cannot be made shorter, so reading it is
// safe whatever a worker does.
Result<UniqueFd> CreateFlightRecorderFile(int local_world_size);

// The worker's side. Methods cost a few nanoseconds and never fail.
class FlightRecorder {
 public:
  // An Error when `file` has no page for `local_rank`.
  static Result<std::unique_ptr<FlightRecorder>> Attach(const UniqueFd& file,
                                                        int local_rank,
                                                        int rank);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // The thread of the training loop.
  void SetPhase(WorkerPhase phase);
  void SetStep(int64_t step);
  // Work that leaves no other trace has gone on: a batch of an evaluation.
  void NoteProgress();

  // The thread that submits collectives; its n-th call is about the collective of sequence number
  // n, counted from 1. `bucket`: -1 for none.
  void Schedule(CollectiveKind kind, uint64_t bytes, int bucket);

  // The thread that runs collectives, in order: one at a time. Start() may come without a
  // Schedule(), but then for all of them.
  void Start(uint64_t sequence, const Collective& collective);
  // `waits`: for another rank; otherwise it works on.
  void SetWaiting(uint64_t sequence, bool waits);
  void End(uint64_t sequence, bool well);

  // What SetStep() said last, and the bucket that was given for `sequence`; for messages.
  int64_t step() const;
  int BucketOf(uint64_t sequence) const;

 private:
  explicit FlightRecorder(FlightPage* page) : page_(*page) {}

  FlightPage& page_;
};

struct RecordedCollective {
  using Time = std::chrono::steady_clock::time_point;

  uint64_t sequence = 0;
  CollectiveKind kind = CollectiveKind::kOther;
  CollectiveState state = CollectiveState::kNone;
  uint16_t group = 0;
  int bucket = -1;   // of the reducer; -1: none
  std::string type;  // empty: unknown
  uint64_t elements = 0;
  uint64_t bytes = 0;
  int64_t step = 0;  // the optimizer step under way, counted from 1; 0: before the first
  std::optional<Time> scheduled = {};
  std::optional<Time> started = {};
  std::optional<Time> ended = {};
};

struct FlightSnapshot {
  int rank = 0;
  pid_t pid = 0;
  WorkerPhase phase = WorkerPhase::kStarting;
  int64_t step = 0;
  uint64_t scheduled = 0;  // sequence number of the last one that was scheduled, and so on
  uint64_t started = 0;
  uint64_t ended = 0;
  uint64_t progress = 0;                             // counts NoteProgress()
  std::vector<RecordedCollective> collectives = {};  // oldest first
};

// The agent's side.
class FlightRecorderReader {
 public:
  static Result<std::unique_ptr<FlightRecorderReader>> Open(const UniqueFd& file,
                                                            int local_world_size);
  ~FlightRecorderReader();
  FlightRecorderReader(const FlightRecorderReader&) = delete;
  FlightRecorderReader& operator=(const FlightRecorderReader&) = delete;

  // nullopt while no worker has attached itself. No collective is ever seen half written: one that
  // is being written is left out. REQUIRES: 0 <= local_rank < local_world_size.
  std::optional<FlightSnapshot> Read(int local_rank) const;

 private:
  FlightRecorderReader(const FlightPage* pages, int count) : pages_(pages), count_(count) {}

  const FlightPage* pages_;
  int count_;
};

}  // namespace ddprun
