#include "base/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/check.h"

namespace ddprun {

namespace {

using Word = std::atomic<uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(uint64_t));

// "ddpfly" and the layout's version.
constexpr uint64_t kMagic = 0x796c'6670'6464'0001;
constexpr size_t kPageBytes = 8192;

// One collective. `version` is odd while the others are being written. Every store of a datum is a
// release and every load an acquire, which on x86 costs nothing and orders them against `version`
// as fences would; but the thread sanitizer does not know fences.
struct Entry {
  Word version;
  Word sequence;
  Word description;  // see Description
  Word type;         // eight characters
  Word elements;
  Word bytes;
  Word step;
  Word scheduled_ns;  // of the steady clock; 0: has not come yet
  Word started_ns;
  Word ended_ns;
};

}  // namespace

// A fresh file is all zeros: a page without an owner.
struct FlightPage {
  Word magic;  // written last
  Word rank;
  Word pid;
  Word phase;
  Word step;
  Word progress;
  Word scheduled;
  Word started;
  Word ended;
  Entry entries[kRecordedCollectives];
  char unused[kPageBytes - 9 * sizeof(Word) - kRecordedCollectives * sizeof(Entry)];
};
static_assert(sizeof(FlightPage) == kPageBytes);

namespace {

struct Description {
  CollectiveKind kind;
  CollectiveState state;
  uint16_t group;
  int32_t bucket;
};
static_assert(sizeof(Description) == sizeof(uint64_t));

uint64_t Pack(const Description& description) {
  return std::bit_cast<uint64_t>(description);
}

Description Unpack(uint64_t word) {
  return std::bit_cast<Description>(word);
}

uint64_t PackText(std::string_view text) {
  uint64_t word = 0;
  std::memcpy(&word, text.data(), std::min(text.size(), sizeof word));
  return word;
}

std::string UnpackText(uint64_t word) {
  char text[sizeof word];
  std::memcpy(text, &word, sizeof word);
  std::string result(text, ::strnlen(text, sizeof text));
  // Whatever the worker did to its page, this goes to a terminal.
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

uint64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

std::optional<RecordedCollective::Time> TimeOf(uint64_t ns) {
  if (ns == 0) return std::nullopt;
  return RecordedCollective::Time(std::chrono::nanoseconds(ns));
}

void Put(Word& word, uint64_t value) {
  word.store(value, std::memory_order_release);
}

uint64_t Get(const Word& word) {
  return word.load(std::memory_order_acquire);
}

// While it lives, readers leave the entry out.
class Writing {
 public:
  explicit Writing(Entry& entry) : entry_(entry), version_(Get(entry.version) | 1) {
    Put(entry_.version, version_);
  }
  ~Writing() { Put(entry_.version, version_ + 1); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  Entry& entry_;
  const uint64_t version_;
};

Entry& EntryOf(FlightPage& page, uint64_t sequence) {
  return page.entries[sequence % kRecordedCollectives];
}

RecordedCollective Copy(const Entry& entry) {
  const Description description = Unpack(Get(entry.description));
  RecordedCollective copy;
  copy.sequence = Get(entry.sequence);
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

// nullopt when it is empty, or being written every time one looks.
std::optional<RecordedCollective> ReadEntry(const Entry& entry) {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = Get(entry.version);
    if (before == 0) return std::nullopt;
    if (before % 2 != 0) continue;
    RecordedCollective copy = Copy(entry);
    if (entry.version.load(std::memory_order_relaxed) == before) return copy;
  }
  return std::nullopt;
}

Result<void*> MapPages(const UniqueFd& file, int first, int count, int protection) {
  const auto bytes = static_cast<size_t>(count) * kPageBytes;
  const auto offset = static_cast<off_t>(static_cast<size_t>(first) * kPageBytes);
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

}  // namespace

std::string_view NameOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kBarrier:
      return "barrier";
    case CollectiveKind::kOther:
      break;
  }
  return "collective";
}

Result<UniqueFd> CreateFlightRecorderFile(int local_world_size) {
  DDPRUN_CHECK(local_world_size > 0);
  UniqueFd file(::memfd_create("ddprun-flight-recorder", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = static_cast<off_t>(static_cast<size_t>(local_world_size) * kPageBytes);
  if (!file.valid() || ::ftruncate(file.get(), bytes) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError("creating the flight recorder (memfd_create)", errno);
  }
  return file;
}

Result<std::unique_ptr<FlightRecorder>> FlightRecorder::Attach(const UniqueFd& file,
                                                               int local_rank,
                                                               int rank) {
  DDPRUN_ASSIGN(void* address, MapPages(file, local_rank, 1, PROT_READ | PROT_WRITE));
  auto* page = static_cast<FlightPage*>(address);
  Put(page->rank, static_cast<uint64_t>(rank));
  Put(page->pid, static_cast<uint64_t>(::getpid()));
  Put(page->magic, kMagic);
  return std::unique_ptr<FlightRecorder>(new FlightRecorder(page));
}

FlightRecorder::~FlightRecorder() {
  ::munmap(&page_, kPageBytes);
}

void FlightRecorder::SetPhase(WorkerPhase phase) {
  Put(page_.phase, static_cast<uint64_t>(phase));
}

void FlightRecorder::SetStep(int64_t step) {
  Put(page_.step, static_cast<uint64_t>(step));
}

void FlightRecorder::NoteProgress() {
  Put(page_.progress, Get(page_.progress) + 1);
}

void FlightRecorder::Schedule(CollectiveKind kind, uint64_t bytes, int bucket) {
  const uint64_t sequence = Get(page_.scheduled) + 1;
  // A place whose last user has not ended belongs to the thread that runs collectives.
  if (sequence - Get(page_.ended) < kRecordedCollectives) {
    Entry& entry = EntryOf(page_, sequence);
    const Writing writing(entry);
    Put(entry.sequence, sequence);
    Put(entry.description, Pack({kind, CollectiveState::kScheduled, 0, bucket}));
    Put(entry.type, 0);
    Put(entry.elements, 0);
    Put(entry.bytes, bytes);
    Put(entry.step, Get(page_.step));
    Put(entry.scheduled_ns, NowNs());
    Put(entry.started_ns, 0);
    Put(entry.ended_ns, 0);
  }
  Put(page_.scheduled, sequence);
}

void FlightRecorder::Start(uint64_t sequence, const Collective& collective) {
  Entry& entry = EntryOf(page_, sequence);
  {
    const Writing writing(entry);
    const bool scheduled = Get(entry.sequence) == sequence;
    const int32_t bucket = scheduled ? Unpack(Get(entry.description)).bucket : -1;
    if (!scheduled) {
      Put(entry.sequence, sequence);
      Put(entry.step, Get(page_.step));
      Put(entry.scheduled_ns, 0);
      Put(entry.ended_ns, 0);
    }
    Put(entry.description,
        Pack({collective.kind, CollectiveState::kStarted, collective.group, bucket}));
    Put(entry.type, PackText(collective.type));
    Put(entry.elements, collective.elements);
    Put(entry.bytes, collective.bytes);
    Put(entry.started_ns, NowNs());
  }
  if (Get(page_.scheduled) < sequence) Put(page_.scheduled, sequence);
  Put(page_.started, sequence);
}

// One word changes, so no reader can see half of it.
void FlightRecorder::SetWaiting(uint64_t sequence, bool waits) {
  Entry& entry = EntryOf(page_, sequence);
  Description description = Unpack(Get(entry.description));
  description.state = waits ? CollectiveState::kWaiting : CollectiveState::kStarted;
  Put(entry.description, Pack(description));
}

void FlightRecorder::End(uint64_t sequence, bool well) {
  Entry& entry = EntryOf(page_, sequence);
  {
    const Writing writing(entry);
    Description description = Unpack(Get(entry.description));
    description.state = well ? CollectiveState::kCompleted : CollectiveState::kFailed;
    Put(entry.description, Pack(description));
    Put(entry.ended_ns, NowNs());
  }
  Put(page_.ended, sequence);
}

int64_t FlightRecorder::step() const {
  return static_cast<int64_t>(Get(page_.step));
}

int FlightRecorder::BucketOf(uint64_t sequence) const {
  const Entry& entry = EntryOf(page_, sequence);
  return Get(entry.sequence) == sequence ? Unpack(Get(entry.description)).bucket : -1;
}

Result<std::unique_ptr<FlightRecorderReader>> FlightRecorderReader::Open(const UniqueFd& file,
                                                                         int local_world_size) {
  DDPRUN_ASSIGN(const void* pages, MapPages(file, 0, local_world_size, PROT_READ));
  return std::unique_ptr<FlightRecorderReader>(
      new FlightRecorderReader(static_cast<const FlightPage*>(pages), local_world_size));
}

FlightRecorderReader::~FlightRecorderReader() {
  ::munmap(const_cast<FlightPage*>(pages_), static_cast<size_t>(count_) * kPageBytes);
}

std::optional<FlightSnapshot> FlightRecorderReader::Read(int local_rank) const {
  DDPRUN_CHECK(local_rank >= 0 && local_rank < count_);
  const FlightPage& page = pages_[local_rank];
  if (Get(page.magic) != kMagic) return std::nullopt;
  FlightSnapshot snapshot;
  snapshot.rank = static_cast<int>(Get(page.rank));
  snapshot.pid = static_cast<pid_t>(Get(page.pid));
  snapshot.phase = static_cast<WorkerPhase>(Get(page.phase));
  snapshot.step = static_cast<int64_t>(Get(page.step));
  snapshot.progress = Get(page.progress);
  snapshot.ended = Get(page.ended);
  snapshot.started = Get(page.started);
  snapshot.scheduled = Get(page.scheduled);
  for (const Entry& entry : page.entries) {
    if (std::optional<RecordedCollective> copy = ReadEntry(entry)) {
      snapshot.collectives.push_back(*std::move(copy));
    }
  }
  std::sort(snapshot.collectives.begin(), snapshot.collectives.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return snapshot;
}

}  // namespace ddprun
