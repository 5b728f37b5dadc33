#include "base/flight_recorder.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "base/check.h"
#include "base/flight_page.h"
#include "base/sealed_memory.h"

namespace ddprun {

namespace {

uint64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

FlightEntry& EntryOf(FlightPage& page, uint64_t ticket) {
  return page.entries[ticket % kRecordedCollectives];
}

void Describe(FlightEntry& entry, const Collective& collective, CollectiveState state, int bucket) {
  Put(entry.description, Pack({collective.kind, state, collective.group, bucket}));
  Put(entry.number, collective.number);
  Put(entry.type, PackText(collective.type));
  Put(entry.elements, collective.elements);
  Put(entry.bytes, collective.bytes);
}

}  // namespace

Result<void*> MapFlightPages(const UniqueFd& file, int first, int count, int protection) {
  const auto bytes = static_cast<size_t>(count) * kFlightPageBytes;
  const auto offset = static_cast<off_t>(static_cast<size_t>(first) * kFlightPageBytes);
  if (!HasSeals(file, kFlightRecorderSeals)) return SystemError("using the flight recorder", EPERM);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0)
    return SystemError("looking at the flight recorder", errno);
  if (first < 0 || status.st_size < offset + static_cast<off_t>(bytes)) {
    return SystemError("finding a place in the flight recorder", ENOSPC);
  }
  void* pages = ::mmap(nullptr, bytes, protection, MAP_SHARED, file.get(), offset);
  if (pages == MAP_FAILED) return SystemError("mapping the flight recorder", errno);
  return pages;
}

std::string_view NameOf(CollectiveKind kind) {
  constexpr std::array<std::string_view, 12> kNames = {
      "collective", "all_reduce", "broadcast",         "all_gather",
      "barrier",    "reduce",     "reduce_scatter",    "all_to_all",
      "gather",     "scatter",    "receive from rank", "receive from any rank"};
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : kNames[0];
}

Result<UniqueFd> CreateFlightRecorderFile(int local_world_size) {
  DDPRUN_CHECK(local_world_size > 0);
  const auto bytes = static_cast<off_t>(static_cast<size_t>(local_world_size) * kFlightPageBytes);
  return CreateSealedMemory("ddprun-flight-recorder", bytes, kFlightRecorderSeals);
}

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::Attach(const UniqueFd& file,
                                                               int local_rank,
                                                               int rank) {
  struct stat status = {};
  const bool known = ::fstat(file.get(), &status) == 0;
  const int count = known ? static_cast<int>(status.st_size / kFlightPageBytes) : 0;
  if (local_rank < 0 || local_rank >= count) {
    return SystemError("finding a place in the flight recorder", ENOSPC);
  }
  DDPRUN_ASSIGN(void* address, MapFlightPages(file, 0, count, PROT_READ | PROT_WRITE));
  auto* pages = static_cast<FlightPage*>(address);
  FlightPage* page = pages + local_rank;
  // Clears the page of the process that this one replaces, except `lost` and `lost_ns`.
  if (Get(page->magic) == kFlightMagic) {
    auto* words = reinterpret_cast<FlightWord*>(page);
    for (size_t i = 0; i < offsetof(FlightPage, unused) / sizeof *words; ++i) Put(words[i], 0);
  }
  Put(page->recovery_generation, 0);
  Put(page->rank, static_cast<uint64_t>(rank));
  Put(page->pid, static_cast<uint64_t>(::getpid()));
  Put(page->magic, kFlightMagic);
  return std::unique_ptr<FlightRecorder>(new FlightRecorder(pages, count, local_rank));
}

FlightRecorder::FlightRecorder(FlightPage* pages, int count, int own)
    : pages_(pages), count_(count), page_(pages[own]) {}

FlightRecorder::~FlightRecorder() {
  ::munmap(pages_, static_cast<size_t>(count_) * kFlightPageBytes);
}

void FlightRecorder::SetRecoveryGeneration(std::optional<int> generation, bool keeps_state) {
  const uint64_t keeps = keeps_state ? kKeepsState : 0;
  Put(page_.recovery_generation, generation ? (static_cast<uint64_t>(*generation) + 1) | keeps : 0);
}

bool FlightRecorder::can_continue() const {
  return Get(page_.recovery_generation) > 0;
}

bool FlightRecorder::IsLost(int local_rank, int generation) const {
  return local_rank < count_ && Get(pages_[local_rank].lost) > static_cast<uint64_t>(generation);
}

bool FlightRecorder::IsAnyLost(int generation) const {
  if (Get(pages_[0].lost_elsewhere[2]) > static_cast<uint64_t>(generation)) return true;
  for (int local_rank = 0; local_rank < count_; ++local_rank) {
    if (IsLost(local_rank, generation)) return true;
  }
  return false;
}

std::vector<LostWorker> FlightRecorder::LostWorkersSince(int generation) const {
  std::vector<LostWorker> workers;
  const auto add = [&](const FlightWord& rank, const FlightWord& lost, const FlightWord& ns) {
    if (Get(lost) <= static_cast<uint64_t>(generation)) return;
    const std::chrono::nanoseconds time(Get(ns));
    workers.push_back({static_cast<int>(Get(rank)), static_cast<int>(Get(lost)),
                       std::chrono::steady_clock::time_point(time)});
  };
  for (int i = 0; i < count_; ++i) add(pages_[i].rank, pages_[i].lost, pages_[i].lost_ns);
  const auto& [rank, ns, lost] = pages_[0].lost_elsewhere;
  add(rank, lost, ns);
  return workers;
}

void FlightRecorder::SetPhase(WorkerPhase phase) {
  Put(page_.phase, static_cast<uint64_t>(phase));
}

void FlightRecorder::SetStep(int64_t step) {
  Put(page_.step, static_cast<uint64_t>(step));
}

StepPhase FlightRecorder::SetStepPhase(StepPhase phase) {
  const auto before = static_cast<StepPhase>(Get(page_.step_phase) & 0xff);
  Put(page_.step_phase, NowNs() << 8 | static_cast<uint64_t>(phase));
  return before;
}

void FlightRecorder::NoteGroup(uint16_t group) {
  const uint64_t place = page_.groups_noted.fetch_add(1, std::memory_order_relaxed);
  Put(page_.groups[place % kRecordedGroups], uint64_t{group} + 1);
}

void FlightRecorder::NoteLine(std::string_view text) {
  const uint64_t number = page_.lines_noted.fetch_add(1, std::memory_order_relaxed) + 1;
  FlightLine& line = page_.lines[number % kRecordedLines];
  const FlightWriting writing(line.version);
  Put(line.number, number);
  PutText(line.text, text);
}

void FlightRecorder::NoteProgress() {
  Put(page_.progress, Get(page_.progress) + 1);
}

uint64_t FlightRecorder::Schedule(const Collective& collective) {
  const int bucket = next_bucket_.exchange(-1, std::memory_order_relaxed);
  const uint64_t ticket = page_.scheduled.fetch_add(1, std::memory_order_acq_rel) + 1;
  // If the entry's last collective has not ended, its thread may still write to the entry.
  if (ticket - Get(page_.ended) < kRecordedCollectives) {
    FlightEntry& entry = EntryOf(page_, ticket);
    const FlightWriting writing(entry.version);
    Put(entry.ticket, ticket);
    Describe(entry, collective, CollectiveState::kScheduled, bucket);
    Put(entry.step, Get(page_.step));
    Put(entry.scheduled_ns, NowNs());
    Put(entry.started_ns, 0);
    Put(entry.ended_ns, 0);
  }
  return ticket;
}

void FlightRecorder::Start(uint64_t ticket, const Collective& collective) {
  FlightEntry& entry = EntryOf(page_, ticket);
  {
    const FlightWriting writing(entry.version);
    const bool scheduled = Get(entry.ticket) == ticket;
    const int bucket = scheduled ? Unpack(Get(entry.description)).bucket : -1;
    if (!scheduled) {
      Put(entry.ticket, ticket);
      Put(entry.step, Get(page_.step));
      Put(entry.scheduled_ns, 0);
      Put(entry.ended_ns, 0);
    }
    Describe(entry, collective, CollectiveState::kStarted, bucket);
    Put(entry.started_ns, NowNs());
  }
  Put(page_.started, ticket);
}

// Changes one word, so it needs no FlightWriting.
void FlightRecorder::SetWaiting(uint64_t ticket, bool waits) {
  FlightEntry& entry = EntryOf(page_, ticket);
  if (Get(entry.ticket) != ticket) return;  // later collectives use the entry
  FlightDescription description = Unpack(Get(entry.description));
  description.state = waits ? CollectiveState::kWaiting : CollectiveState::kStarted;
  Put(entry.description, Pack(description));
}

void FlightRecorder::End(uint64_t ticket, bool succeeded) {
  FlightEntry& entry = EntryOf(page_, ticket);
  if (Get(entry.ticket) == ticket) {
    const FlightWriting writing(entry.version);
    FlightDescription description = Unpack(Get(entry.description));
    description.state = succeeded ? CollectiveState::kCompleted : CollectiveState::kFailed;
    Put(entry.description, Pack(description));
    Put(entry.ended_ns, NowNs());
  }
  Put(page_.ended, ticket);
}

std::string FlightRecorder::StepAndBucket(uint64_t ticket) const {
  const FlightEntry& entry = EntryOf(page_, ticket);
  const uint64_t step = Get(entry.step);
  const int bucket = Unpack(Get(entry.description)).bucket;
  std::string text;
  if (step > 0) text = "step " + std::to_string(step);
  if (bucket >= 0) text += (text.empty() ? "bucket " : ", bucket ") + std::to_string(bucket);
  return text;
}

}  // namespace ddprun
