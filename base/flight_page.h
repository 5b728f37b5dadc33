// The layout of a page of the flight recorder's file. Internal to base.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/flight_recorder.h"

namespace ddprun {

using FlightWord = std::atomic<uint64_t>;
static_assert(FlightWord::is_always_lock_free && sizeof(FlightWord) == sizeof(uint64_t));

inline constexpr uint64_t kFlightMagic = 0x796c'6670'6464'0005;  // "ddpfly", the layout's version
inline constexpr size_t kFlightPageBytes = 12288;
inline constexpr size_t kRecordedGpuBytes = 16;  // a longer address is cut
inline constexpr size_t kRecordedCommandBytes = 1024;
inline constexpr uint64_t kKeepsState = uint64_t{1} << 32;

// One collective. `version` is odd while a thread writes the other words. Stores are releases and
// loads are acquires, because the thread sanitizer does not know fences; on x86 both cost nothing.
struct FlightEntry {
  FlightWord version;
  FlightWord ticket;
  FlightWord number;
  FlightWord description;  // see FlightDescription
  FlightWord type;         // eight characters
  FlightWord elements;
  FlightWord bytes;
  FlightWord step;
  FlightWord scheduled_ns;  // of the steady clock; 0 means not yet
  FlightWord started_ns;
  FlightWord ended_ns;
};

// A line of the log. For `version` see FlightEntry.
struct FlightLine {
  FlightWord version;
  FlightWord number;                                         // counts from 1
  FlightWord text[kRecordedLineBytes / sizeof(FlightWord)];  // padded with zeros
};

// A command (NoteResumeCommand). For `version` see FlightEntry.
struct FlightCommand {
  FlightWord version;
  FlightWord text[kRecordedCommandBytes / sizeof(FlightWord)];  // padded with zeros
};

// A RunProgress (NoteRun). For `version` see FlightEntry.
struct FlightRun {
  FlightWord version;
  FlightWord numbers[4];
};

// A new file is all zeros: `magic` is 0 until a worker has attached itself.
struct FlightPage {
  FlightWord magic;  // written last
  FlightWord rank;
  FlightWord pid;
  FlightWord phase;
  FlightWord step;
  FlightWord progress;
  FlightWord scheduled;
  FlightWord started;
  FlightWord ended;
  FlightWord groups_noted;
  FlightWord groups[kRecordedGroups];  // number + 1; 0 means none yet
  FlightEntry entries[kRecordedCollectives];
  FlightWord lines_noted;
  FlightLine lines[kRecordedLines];
  FlightWord gpu[kRecordedGpuBytes / sizeof(FlightWord)];  // padded with zeros
  FlightCommand resume_command;
  FlightWord world_size;
  FlightWord restarts;
  FlightWord step_phase;  // StepPhase in the low eight bits; above them the time, nanoseconds
  FlightRun run;
  char unused[kFlightPageBytes - (22 + kRecordedGroups) * sizeof(FlightWord) -
              kRecordedCollectives * sizeof(FlightEntry) - kRecordedLines * sizeof(FlightLine) -
              sizeof(FlightCommand) - sizeof(FlightRun)];
  // These come last because other processes poll them: not in the cache lines of the words above.
  FlightWord recovery_generation;  // generation + 1, and kKeepsState; 0 means that it cannot
  FlightWord lost_ns;              // MarkLost
  FlightWord lost;
  FlightWord lost_elsewhere[3];  // MarkLostElsewhere, in the first page: rank, time, generation
};
static_assert(sizeof(FlightPage) == kFlightPageBytes);

struct FlightDescription {
  CollectiveKind kind;
  CollectiveState state;
  uint16_t group;
  int32_t bucket;
};
static_assert(sizeof(FlightDescription) == sizeof(uint64_t));

inline uint64_t Pack(const FlightDescription& description) {
  return std::bit_cast<uint64_t>(description);
}

inline FlightDescription Unpack(uint64_t word) {
  return std::bit_cast<FlightDescription>(word);
}

inline void Put(FlightWord& word, uint64_t value) {
  word.store(value, std::memory_order_release);
}

inline uint64_t Get(const FlightWord& word) {
  return word.load(std::memory_order_acquire);
}

inline uint64_t PackText(std::string_view text) {
  uint64_t word = 0;
  if (!text.empty()) std::memcpy(&word, text.data(), std::min(text.size(), sizeof word));
  return word;
}

// Writes `text`, cut if it is too long, and pads it with zeros.
template <size_t kWords>
void PutText(FlightWord (&words)[kWords], std::string_view text) {
  for (FlightWord& word : words) {
    Put(word, PackText(text));
    text.remove_prefix(std::min(text.size(), sizeof word));
  }
}

// While this object lives, readers ignore the entry, line or command that has this version.
class FlightWriting {
 public:
  explicit FlightWriting(FlightWord& version) : word_(version), version_(Get(version) | 1) {
    Put(word_, version_);
  }
  ~FlightWriting() { Put(word_, version_ + 1); }
  FlightWriting(const FlightWriting&) = delete;
  FlightWriting& operator=(const FlightWriting&) = delete;

 private:
  FlightWord& word_;
  const uint64_t version_;
};

// Maps `count` pages, beginning with page `first`.
Result<void*> MapFlightPages(const UniqueFd& file, int first, int count, int protection);

}  // namespace ddprun
