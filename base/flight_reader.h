// The agent's side of the flight recorder: reads the pages of workers, also after they have ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/flight_notes.h"
#include "base/flight_recorder.h"

namespace ddprun {

struct RecordedCollective {
  using Time = std::chrono::steady_clock::time_point;

  uint64_t ticket = 0;  // counts the worker's collectives from 1
  uint64_t number = 0;  // counts the group's collectives; 0 means not started yet
  CollectiveKind kind = CollectiveKind::kOther;
  CollectiveState state = CollectiveState::kNone;
  uint16_t group = 0;
  int bucket = -1;   // the reducer's bucket; -1 means none
  std::string type;  // "" means unknown
  uint64_t elements = 0;
  uint64_t bytes = 0;
  int64_t step = 0;  // the current optimizer step, counted from 1; 0 means before the first
  std::optional<Time> scheduled = {};
  std::optional<Time> started = {};
  std::optional<Time> ended = {};
};

struct FlightSnapshot {
  int rank = 0;
  pid_t pid = 0;
  WorkerPhase phase = WorkerPhase::kStarting;
  int64_t step = 0;
  StepPhase step_phase = StepPhase::kNone;
  std::optional<RecordedCollective::Time> step_phase_began = {};
  std::optional<RunProgress> run = {};  // NoteRun()
  int64_t world_size = 0;               // NoteStart(); 0 means unknown
  int64_t restarts = 0;
  uint64_t scheduled = 0;                            // last ticket that was scheduled
  uint64_t started = 0;                              // last ticket that was started
  uint64_t ended = 0;                                // last ticket that has ended
  uint64_t progress = 0;                             // counts NoteProgress()
  std::optional<int> recovery_generation = {};       // FlightRecorder::SetRecoveryGeneration
  bool keeps_state = false;                          // the same
  std::vector<uint16_t> groups = {};                 // NoteGroup(): groups of some of the ranks
  std::vector<RecordedCollective> collectives = {};  // oldest first
  std::vector<std::string> log = {};                 // last lines, oldest first
};

class FlightReader {
 public:
  static Result<std::unique_ptr<FlightReader>> Open(const UniqueFd& file, int local_world_size);
  // Opens the pages of all workers of the file.
  static Result<std::unique_ptr<FlightReader>> Open(const UniqueFd& file);
  ~FlightReader();
  FlightReader(const FlightReader&) = delete;
  FlightReader& operator=(const FlightReader&) = delete;

  int count() const { return count_; }
  // Returns nullopt while no worker has attached itself. Leaves out collectives and lines that the
  // worker is writing just now. REQUIRES: 0 <= local_rank < local_world_size.
  std::optional<FlightSnapshot> Read(int local_rank) const;
  // Returns the bus id of NoteGpu(); "" means none. REQUIRES: see Read().
  std::string ReadGpu(int local_rank) const;
  // Returns the command of the last NoteResumeCommand(); "" means none. REQUIRES: see Read().
  std::string ReadResumeCommand(int local_rank) const;

 private:
  FlightReader(const FlightPage* pages, int count) : pages_(pages), count_(count) {}

  const FlightPage* pages_;
  int count_;
};

}  // namespace ddprun
