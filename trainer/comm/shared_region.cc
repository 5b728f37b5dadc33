#include "trainer/comm/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/sealed_memory.h"

namespace ddprun::trainer {

namespace {

constexpr size_t kLargePageBytes = size_t{2} << 20;

// The bytes of a generation in the file. Generations never overlap, because no address space is
// larger. The file has its full size at once, because a later resize could shorten it for others.
constexpr off_t kGenerationBytes = off_t{1} << 47;
constexpr int kGenerations = (1 << 15) - 1;
constexpr off_t kFileBytes = (kGenerations + 1) * kGenerationBytes;  // with the kept memory

// Blocks of different ranks begin at different places within a page. At equal places, a load from
// one rank's array and the store just made to another's are equal in their low 12 address bits, so
// that the processor lets the load wait: an all-reduce in place takes three times as long.
size_t Skew(int rank) {
  return static_cast<size_t>(rank) * 576 % kPageBytes;
}

constexpr size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

constexpr size_t kControlBytes = RoundUp(sizeof(ControlBlock), kPageBytes);

// Returns the offset of the heaps: after the control blocks and the channels of every pair.
size_t HeapsOffset(int local_size) {
  const size_t n = static_cast<size_t>(local_size);
  return n * kControlBytes + RoundUp(n * n * sizeof(Channel), kPageBytes);
}

size_t TotalBytes(int local_size, size_t heap_bytes) {
  return HeapsOffset(local_size) + static_cast<size_t>(local_size) * heap_bytes;
}

// Maps a part of the file at `at`; nullptr means anywhere. Returns MAP_FAILED on errors.
void* MapPart(const UniqueFd& file, void* at, size_t bytes, off_t begin) {
  const int fixed = at == nullptr ? 0 : MAP_FIXED;
  void* const data = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | fixed,
                          file.get(), begin);
  if (data != MAP_FAILED) madvise(data, bytes, MADV_DONTDUMP);  // keeps core files small
  return data;
}

Status CheckGeneration(int generation) {
  if (generation < kGenerations) return {};
  return SystemError("making process group " + std::to_string(generation), EOVERFLOW);
}

Error NotNodeMemory() {
  return {.title = "NOT THE NODE'S MEMORY",
          .what =
              "The descriptor that should be the memory of this node's ranks is another file. It "
              "was left\nas it is.",
          .hint =
              "A process between ddprun and this one closes descriptors and opens its own under "
              "their\nnumbers: have it pass them on, or unset DDPRUN_NODE_MEMORY_FD for this "
              "program on all ranks.",
          .page = "not-the-nodes-memory"};
}

}  // namespace

Result<UniqueFd> SharedRegion::CreateFile() {
  return CreateNodeMemory();
}

Result<std::unique_ptr<SharedRegion>> SharedRegion::Map(const UniqueFd& file,
                                                        int local_size,
                                                        int generation,
                                                        size_t heap_bytes) {
  DDPRUN_CHECK(local_size > 0 && generation >= 0);
  UniqueFd copy(fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return SystemError("using the node's shared memory (dup)", errno);
  DDPRUN_TRY(CheckGeneration(generation));
  if (!HasSeals(copy, kNodeMemorySeals)) return NotNodeMemory();
  if (ftruncate(copy.get(), kFileBytes) != 0) {
    Error error = SystemError("sizing the node's shared memory (ftruncate)", errno);
    error.hint = "It is a sparse file without a limit; lift `ulimit -f`, if one is set.";
    return error;
  }
  const size_t total = TotalBytes(local_size, heap_bytes);
  void* base = MapPart(copy, nullptr, total, generation * kGenerationBytes);
  if (base == MAP_FAILED) {
    Error error = SystemError("mapping the node's shared memory (mmap)", errno);
    error.hint = "It needs " + std::to_string(total >> 30) +
                 " GiB of address space, not of memory; lift `ulimit -v`, if one is set.";
    return error;
  }
  return std::unique_ptr<SharedRegion>(new SharedRegion(
      std::move(copy), generation, static_cast<std::byte*>(base), local_size, heap_bytes));
}

SharedRegion::SharedRegion(
    UniqueFd file, int generation, std::byte* base, int local_size, size_t heap_bytes)
    : file_(std::move(file)),
      heap_generation_(generation),
      generation_(generation),
      base_(base),
      local_size_(local_size),
      heap_bytes_(heap_bytes),
      heaps_(static_cast<size_t>(local_size), generation) {}

SharedRegion::~SharedRegion() {
  if (IsForked()) {
    munmap(base_, TotalBytes(local_size_, heap_bytes_));
    return;
  }
  if (control(0).left.fetch_add(1) + 1 == local_size_) {
    const auto controls = static_cast<off_t>(HeapsOffset(local_size_));
    Punch(generation_ * kGenerationBytes, controls);
    for (int rank = 0; rank < local_size_; ++rank) Punch(FileOffsetOf(heap(rank)), heap_bytes_);
  }
  munmap(base_, TotalBytes(local_size_, heap_bytes_));
}

Status SharedRegion::Remap(std::byte* data, size_t bytes, off_t begin) {
  if (MapPart(file_, data, bytes, begin) != MAP_FAILED) return {};
  return SystemError("mapping the node's shared memory (mmap)", errno);
}

Status SharedRegion::Renew(int generation) {
  DDPRUN_TRY(CheckGeneration(generation));
  DDPRUN_TRY(Remap(base_, HeapsOffset(local_size_), generation * kGenerationBytes));
  generation_ = generation;
  return {};
}

Status SharedRegion::MapHeaps() {
  for (int rank = 0; rank < local_size_; ++rank) {
    int& mapped = heaps_[static_cast<size_t>(rank)];
    const int heap_generation = control(rank).heap_generation;
    if (heap_generation == mapped) continue;
    std::byte* const own = heap(rank);
    DDPRUN_TRY(Remap(own, heap_bytes_, heap_generation * kGenerationBytes + (own - base_)));
    mapped = heap_generation;
  }
  return {};
}

off_t SharedRegion::FileOffsetOf(const std::byte* data) const {
  const size_t offset = static_cast<size_t>(data - base_);
  const size_t rank = (offset - HeapsOffset(local_size_)) / heap_bytes_;
  return heaps_[rank] * kGenerationBytes + static_cast<off_t>(offset);
}

void SharedRegion::FreeOldGenerations() {
  std::vector<off_t> kept;
  for (int rank = 0; rank < local_size_; ++rank) kept.push_back(FileOffsetOf(heap(rank)));
  std::ranges::sort(kept);
  const off_t end = generation_ * kGenerationBytes;
  off_t begin = 0;
  for (const off_t heap : kept) {
    Punch(begin, std::min(heap, end) - begin);
    begin = std::min(heap + static_cast<off_t>(heap_bytes_), end);
  }
  Punch(begin, end - begin);
}

bool SharedRegion::IsForked() const {
  return getpid() != owner_;
}

// Frees the pages, which then read as zeros.
void SharedRegion::Punch(off_t begin, off_t bytes) {
  if (bytes == 0 || IsForked()) return;
  fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, bytes);
}

ControlBlock& SharedRegion::control(int rank) {
  DDPRUN_CHECK(rank >= 0 && rank < local_size_);
  return *reinterpret_cast<ControlBlock*>(base_ + static_cast<size_t>(rank) * kControlBytes);
}

Channel& SharedRegion::channel(int from, int to) {
  DDPRUN_CHECK(from >= 0 && from < local_size_ && to >= 0 && to < local_size_);
  const size_t index =
      static_cast<size_t>(from) * static_cast<size_t>(local_size_) + static_cast<size_t>(to);
  std::byte* channels = base_ + static_cast<size_t>(local_size_) * kControlBytes;
  return reinterpret_cast<Channel*>(channels)[index];
}

std::byte* SharedRegion::heap(int rank) {
  DDPRUN_CHECK(rank >= 0 && rank < local_size_);
  return base_ + HeapsOffset(local_size_) + static_cast<size_t>(rank) * heap_bytes_;
}

std::byte* SharedRegion::Allocate(int rank, size_t bytes) {
  const size_t size = RoundUp(Skew(rank) + std::max<size_t>(bytes, 1), kPageBytes);
  const std::lock_guard lock(mutex_);
  // First fit, because a process has a few dozen blocks at most.
  const size_t heap_begin = static_cast<size_t>(heap(rank) - base_);
  size_t offset = heap_begin;
  for (const auto& [used_offset, used_bytes] : used_) {
    if (used_offset < heap_begin || used_offset >= heap_begin + heap_bytes_) continue;
    if (used_offset - offset >= size) break;
    offset = used_offset + used_bytes;
  }
  if (offset + size > heap_begin + heap_bytes_) return nullptr;
  used_.emplace(offset, size);
  // Asks for large pages, so that the first use has fewer faults. Only for whole large pages of the
  // block, so that Free() returns all of them.
  const size_t begin = RoundUp(offset, kLargePageBytes);
  const size_t end = (offset + size) / kLargePageBytes * kLargePageBytes;
  if (begin < end) madvise(base_ + begin, end - begin, MADV_HUGEPAGE);
  return base_ + offset + Skew(rank);
}

void SharedRegion::Free(int rank, std::byte* data) {
  const std::lock_guard lock(mutex_);
  DDPRUN_CHECK(data >= heap(rank));
  const auto it = used_.find(static_cast<size_t>(data - base_) - Skew(rank));
  DDPRUN_CHECK(it != used_.end());
  Punch(FileOffsetOf(base_ + it->first), static_cast<off_t>(it->second));
  used_.erase(it);
}

Result<std::byte*> SharedRegion::MapContiguously(std::span<const int64_t> parts, size_t bytes) {
  const auto failed = [] {
    Error error = SystemError("mapping other ranks' memory (mmap)", errno);
    error.hint = "Lift `ulimit -v`, if it is set, or /proc/sys/vm/max_map_count.";
    return error;
  };
  void* row = mmap(nullptr, parts.size() * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (row == MAP_FAILED) return failed();
  auto* const data = static_cast<std::byte*>(row);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const off_t from = FileOffsetOf(heap(static_cast<int>(rank)) + parts[rank]);
    if (mmap(data + rank * bytes, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file_.get(), from) !=
        MAP_FAILED) {
      continue;
    }
    Error error = failed();
    Unmap(data, parts.size() * bytes);
    return error;
  }
  madvise(data, parts.size() * bytes, MADV_DONTDUMP);
  return data;
}

Result<std::byte*> SharedRegion::MapKept(int rank, size_t begin, size_t bytes) const {
  DDPRUN_CHECK(rank >= 0 && rank < local_size_ && begin + bytes <= kKeptBytes);
  const auto rank_begin = static_cast<off_t>(static_cast<size_t>(rank) * kKeptBytes);
  void* const data =
      MapPart(file_, nullptr, bytes,
              kGenerations * kGenerationBytes + rank_begin + static_cast<off_t>(begin));
  if (data == MAP_FAILED)
    return SystemError("mapping memory that outlives this rank (mmap)", errno);
  madvise(data, bytes, MADV_HUGEPAGE);  // fewer faults at the first use
  return static_cast<std::byte*>(data);
}

void SharedRegion::Unmap(std::byte* data, size_t bytes) {
  munmap(data, bytes);
}

int64_t SharedRegion::HeapOffset(int rank, const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::byte* heap_begin = heap(rank);
  if (begin < heap_begin || begin + bytes > heap_begin + heap_bytes_) return -1;
  return begin - heap_begin;
}

}  // namespace ddprun::trainer
