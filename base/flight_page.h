// How a page of the flight recorder's file is laid out: written by base/flight_recorder.cc and
// base/flight_notes.cc, read by base/flight_reader.cc, used by nobody else.
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

// "ddpfly" and the layout's version.
inline constexpr uint64_t kFlightMagic = 0x796c'6670'6464'0005;
inline constexpr size_t kFlightPageBytes = 12288;
inline constexpr size_t kRecordedGpuBytes = 16;  // a longer address is cut
inline constexpr size_t kRecordedCommandBytes = 1024;

// One collective. `version` is odd while the others are being written. Every store of a datum is a
// release and every load an acquire, which on x86 costs nothing and orders them against `version`
// as fences would; but the thread sanitizer does not know fences.
struct FlightEntry {
  FlightWord version;
  FlightWord ticket;
  FlightWord number;
  FlightWord description;  // see FlightDescription
  FlightWord type;         // eight characters
  FlightWord elements;
  FlightWord bytes;
  FlightWord step;
  FlightWord scheduled_ns;  // of the steady clock; 0: has not come yet
  FlightWord started_ns;
  FlightWord ended_ns;
};

// A line of the log; `version` as of an entry.
struct FlightLine {
  FlightWord version;
  FlightWord number;                                         // counts from 1
  FlightWord text[kRecordedLineBytes / sizeof(FlightWord)];  // zeros behind a shorter one
};

// A command (NoteToGoOn); `version` as of an entry.
struct FlightCommand {
  FlightWord version;
  FlightWord text[kRecordedCommandBytes / sizeof(FlightWord)];  // zeros behind a shorter one
};

// A fresh file is all zeros: a page without an owner.
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
  FlightWord groups[kRecordedGroups];  // number + 1; 0: none yet
  FlightEntry entries[kRecordedCollectives];
  FlightWord lines_said;
  FlightLine lines[kRecordedLines];
  FlightWord gpu[kRecordedGpuBytes / sizeof(FlightWord)];  // zeros behind a shorter one
  FlightCommand to_go_on;
  char unused[kFlightPageBytes - (16 + kRecordedGroups) * sizeof(FlightWord) -
              kRecordedCollectives * sizeof(FlightEntry) - kRecordedLines * sizeof(FlightLine) -
              sizeof(FlightCommand)];
  // Last, far from what its worker writes all the time.
  FlightWord recovers;  // SetRecovers: generation + 1; 0: it cannot
  FlightWord lost_ns;   // MarkLost
  FlightWord lost;
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

// Cuts a text that is too long.
template <size_t kWords>
void PutText(FlightWord (&words)[kWords], std::string_view text) {
  for (FlightWord& word : words) {
    Put(word, PackText(text));
    text.remove_prefix(std::min(text.size(), sizeof word));
  }
}

// While it lives, readers leave out what has this version.
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

// mmap of `count` pages from number `first` on.
Result<void*> MapFlightPages(const UniqueFd& file, int first, int count, int protection);

}  // namespace ddprun
