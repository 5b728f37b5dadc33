#include "base/flight_reader.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/flight_page.h"
#include "base/text.h"

namespace ddprun {

namespace {

std::string UnpackText(uint64_t word) {
  char text[sizeof word];
  std::memcpy(text, &word, sizeof word);
  std::string result(text, ::strnlen(text, sizeof text));
  // The worker may have overwritten its page, and this text goes to a terminal.
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

// Returns nullopt for 0, and for values that no clock has, because durations would overflow.
std::optional<RecordedCollective::Time> TimeOf(uint64_t ns) {
  if (ns == 0 || !std::in_range<int64_t>(ns)) return std::nullopt;
  return RecordedCollective::Time(std::chrono::nanoseconds(ns));
}

template <size_t kWords>
std::string TextOf(const FlightWord (&words)[kWords]) {
  std::string text(sizeof words, '\0');
  for (size_t i = 0; i < kWords; ++i) {
    const uint64_t word = Get(words[i]);
    std::memcpy(text.data() + i * sizeof word, &word, sizeof word);
  }
  text.resize(::strnlen(text.data(), text.size()));
  return MakePrintable(text);
}

// Returns the line's number and text.
std::pair<uint64_t, std::string> Copy(const FlightLine& line) {
  return {Get(line.number), TextOf(line.text)};
}

std::string Copy(const FlightCommand& command) {
  return TextOf(command.text);
}

RunProgress Copy(const FlightRun& run) {
  std::array<uint64_t, std::size(FlightRun().numbers)> words{};
  for (size_t i = 0; i < words.size(); ++i) words[i] = Get(run.numbers[i]);
  return std::bit_cast<RunProgress>(words);
}

RecordedCollective Copy(const FlightEntry& entry) {
  const FlightDescription description = Unpack(Get(entry.description));
  RecordedCollective copy;
  copy.ticket = Get(entry.ticket);
  copy.number = Get(entry.number);
  copy.kind = description.kind;
  copy.state = description.state;
  copy.group = description.group;
  copy.bucket = description.bucket;
  copy.type = UnpackText(Get(entry.type));
  copy.elements = Get(entry.elements);
  copy.bytes = Get(entry.bytes);
  copy.step = static_cast<int64_t>(Get(entry.step));
  copy.scheduled = TimeOf(Get(entry.scheduled_ns));
  copy.started = TimeOf(Get(entry.started_ns));
  copy.ended = TimeOf(Get(entry.ended_ns));
  return copy;
}

// Returns nullopt if the entry is empty, or if it was being written at each try.
template <typename Entry>
auto ReadStable(const Entry& entry) -> std::optional<decltype(Copy(entry))> {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = Get(entry.version);
    if (before == 0) return std::nullopt;
    if (before % 2 != 0) continue;
    auto copy = Copy(entry);
    if (entry.version.load(std::memory_order_relaxed) == before) return copy;
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<FlightReader>> FlightReader::Open(const UniqueFd& file,
                                                         int local_world_size) {
  DDPRUN_ASSIGN(const void* pages, MapFlightPages(file, 0, local_world_size, PROT_READ));
  return std::unique_ptr<FlightReader>(
      new FlightReader(static_cast<const FlightPage*>(pages), local_world_size));
}

Result<std::unique_ptr<FlightReader>> FlightReader::Open(const UniqueFd& file) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0)
    return SystemError("looking at the flight recorder", errno);
  return Open(file, static_cast<int>(status.st_size / static_cast<off_t>(kFlightPageBytes)));
}

FlightReader::~FlightReader() {
  ::munmap(const_cast<FlightPage*>(pages_), static_cast<size_t>(count_) * kFlightPageBytes);
}

std::optional<FlightSnapshot> FlightReader::Read(int local_rank) const {
  DDPRUN_CHECK(local_rank >= 0 && local_rank < count_);
  const FlightPage& page = pages_[local_rank];
  if (Get(page.magic) != kFlightMagic) return std::nullopt;
  FlightSnapshot snapshot;
  snapshot.rank = static_cast<int>(Get(page.rank));
  snapshot.pid = static_cast<pid_t>(Get(page.pid));
  snapshot.phase = static_cast<WorkerPhase>(Get(page.phase));
  snapshot.step = static_cast<int64_t>(Get(page.step));
  const uint64_t step_phase = Get(page.step_phase);
  snapshot.step_phase = static_cast<StepPhase>(step_phase & 0xff);
  snapshot.step_phase_began = TimeOf(step_phase >> 8);
  snapshot.run = ReadStable(page.run);
  snapshot.world_size = static_cast<int64_t>(Get(page.world_size));
  snapshot.restarts = static_cast<int64_t>(Get(page.restarts));
  snapshot.progress = Get(page.progress);
  // The worker may have overwritten its page: a value out of range is not a generation.
  const uint64_t recovery = Get(page.recovery_generation);
  const uint64_t recovery_generation = recovery & ~kKeepsState;
  if (recovery_generation != 0 &&
      recovery_generation <= static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    snapshot.recovery_generation = static_cast<int>(recovery_generation) - 1;
    snapshot.keeps_state = (recovery & kKeepsState) != 0;
  }
  snapshot.ended = Get(page.ended);
  snapshot.started = Get(page.started);
  snapshot.scheduled = Get(page.scheduled);
  for (const FlightWord& group : page.groups) {
    const uint64_t noted = Get(group);
    if (noted != 0) snapshot.groups.push_back(static_cast<uint16_t>(noted - 1));
  }
  for (const FlightEntry& entry : page.entries) {
    if (auto copy = ReadStable(entry)) snapshot.collectives.push_back(*std::move(copy));
  }
  std::sort(snapshot.collectives.begin(), snapshot.collectives.end(),
            [](const auto& a, const auto& b) { return a.ticket < b.ticket; });
  std::map<uint64_t, std::string> lines;
  for (const FlightLine& line : page.lines) {
    if (auto copy = ReadStable(line)) lines.insert(*std::move(copy));
  }
  for (auto& [number, line] : lines) snapshot.log.push_back(std::move(line));
  return snapshot;
}

std::string FlightReader::ReadGpu(int local_rank) const {
  DDPRUN_CHECK(local_rank >= 0 && local_rank < count_);
  std::string bus_id;
  for (const FlightWord& word : pages_[local_rank].gpu) bus_id += UnpackText(Get(word));
  return bus_id;
}

std::string FlightReader::ReadResumeCommand(int local_rank) const {
  DDPRUN_CHECK(local_rank >= 0 && local_rank < count_);
  return ReadStable(pages_[local_rank].resume_command).value_or("");
}

}  // namespace ddprun
