// The reading side of the flight recorder: what every worker of the node was doing last, also after
// its end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/flight_recorder.h"

namespace ddprun {

struct RecordedCollective {
  using Time = std::chrono::steady_clock::time_point;

  uint64_t ticket = 0;  // of the worker; counts from 1
  uint64_t number = 0;  // within the group; 0: not started yet
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
  uint64_t scheduled = 0;  // the last ticket that was scheduled, and so on
  uint64_t started = 0;
  uint64_t ended = 0;
  uint64_t progress = 0;                             // counts NoteProgress()
  std::optional<int> recovers = {};                  // FlightRecorder::SetRecovers
  std::vector<uint16_t> groups = {};                 // of some of the ranks, that it has been in
  std::vector<RecordedCollective> collectives = {};  // oldest first
  std::vector<std::string> log = {};                 // its last lines, oldest first
};

// The agent's side.
class FlightReader {
 public:
  static Result<std::unique_ptr<FlightReader>> Open(const UniqueFd& file, int local_world_size);
  ~FlightReader();
  FlightReader(const FlightReader&) = delete;
  FlightReader& operator=(const FlightReader&) = delete;

  // nullopt while no worker has attached itself. No collective is ever seen half written: one that
  // is being written is left out. REQUIRES: 0 <= local_rank < local_world_size.
  std::optional<FlightSnapshot> Read(int local_rank) const;
  // What the worker has said with NoteGpu; empty: nothing. REQUIRES: as Read.
  std::string ReadGpu(int local_rank) const;
  // The command of its last NoteToGoOn; empty means none. REQUIRES: as Read.
  std::string ReadToGoOn(int local_rank) const;

 private:
  FlightReader(const FlightPage* pages, int count) : pages_(pages), count_(count) {}

  const FlightPage* pages_;
  int count_;
};

}  // namespace ddprun
