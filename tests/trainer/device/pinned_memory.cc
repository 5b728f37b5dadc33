#include "tests/trainer/device/pinned_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <list>
#include <map>
#include <utility>

namespace ddprun::simulated {
namespace {

constexpr size_t kPage = 4096;

struct Pending {
  Use use;  // whole pages
  QueuedPtr copy;
  SignalPtr done;
};

struct Piece {
  std::byte* begin;
  size_t size;
};

struct Taken {
  size_t size;  // whole pages
  uint64_t owner;
  size_t asked;
};

struct Pool {
  std::byte* unused = PinnedMemory();
  std::map<std::byte*, Taken> taken = {};
  uint64_t owners = 0;
  std::multimap<size_t, std::byte*> free = {};
  std::list<Piece> waiting = {};  // freed, but copies still use it
  std::list<Pending> pending = {};
};

// Under BookLock().
Pool& ThePool() {
  static Pool* const pool = new Pool;
  return *pool;
}

bool Overlaps(const Pending& pending, const std::byte* begin, const std::byte* end) {
  return pending.use.begin < end && begin < pending.use.end;
}

// Gives the pages what the pending copies leave to the host.
void Protect(std::byte* begin, std::byte* end) {
  mprotect(begin, static_cast<size_t>(end - begin), PROT_READ | PROT_WRITE);
  for (const bool writes : {false, true}) {
    for (const Pending& one : ThePool().pending) {
      if (one.use.writes != writes || !Overlaps(one, begin, end)) continue;
      std::byte* const from = std::max(begin, one.use.begin);
      mprotect(from, static_cast<size_t>(std::min(end, one.use.end) - from),
               writes ? PROT_NONE : PROT_READ);
    }
  }
}

template <typename Condition>
void RemovePending(const Condition& condition) {
  auto& list = ThePool().pending;
  for (auto one = list.begin(); one != list.end();) {
    if (!condition(*one)) {
      ++one;
      continue;
    }
    const Use use = one->use;
    one = list.erase(one);
    Protect(use.begin, use.end);
  }
}

// Freed memory can be used again once the copies are done, whether the host knows that or not.
void ReturnWaitingPieces(Pool& pool) {
  for (auto piece = pool.waiting.begin(); piece != pool.waiting.end();) {
    std::byte* const end = piece->begin + piece->size;
    RemovePending(
        [&](const Pending& one) { return Overlaps(one, piece->begin, end) && one.done->IsSet(); });
    const auto overlaps = [&](const Pending& one) { return Overlaps(one, piece->begin, end); };
    if (std::any_of(pool.pending.begin(), pool.pending.end(), overlaps)) {
      ++piece;
      continue;
    }
    pool.free.emplace(piece->size, piece->begin);
    piece = pool.waiting.erase(piece);
  }
}

std::byte* TakePinned(size_t bytes) {
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  const auto lock = BookLock();
  Pool& pool = ThePool();
  ReturnWaitingPieces(pool);
  const auto found = pool.free.lower_bound(size);
  if (found != pool.free.end() && found->first <= 2 * size) {
    std::byte* const begin = found->second;
    pool.taken.emplace(begin, Taken{found->first, ++pool.owners, bytes});
    pool.free.erase(found);
    return begin;
  }
  TORCH_CHECK(pool.unused + size <= PinnedMemory() + kDeviceBytes, "out of pinned memory");
  std::byte* const begin = std::exchange(pool.unused, pool.unused + size);
  pool.taken.emplace(begin, Taken{size, ++pool.owners, bytes});
  return begin;
}

void FreePinned(void* context) {
  const auto lock = BookLock();
  Pool& pool = ThePool();
  const auto found = pool.taken.find(static_cast<std::byte*>(context));
  pool.waiting.push_back({found->first, found->second.size});
  pool.taken.erase(found);
}

class HostAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::kCPU};
    std::byte* const data = TakePinned(bytes);
    return {data, data, &FreePinned, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &FreePinned; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }  // copies are pending
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

REGISTER_HOST_ALLOCATOR(kDeviceType, &TheHostAllocator())

}  // namespace

at::HostAllocator& TheHostAllocator() {
  static HostAllocator* const allocator = new HostAllocator;
  return *allocator;
}

ddprun::PinnedMemory LargePinnedMemory() {
  return {.take = [](size_t bytes) { return TheHostAllocator().raw_allocate(bytes); },
          .give_back = [](void* memory) { TheHostAllocator().raw_deallocate(memory); }};
}

size_t PinnedBytes() {
  const auto lock = BookLock();
  size_t bytes = 0;
  for (const auto& [begin, piece] : ThePool().taken) bytes += piece.asked;
  return bytes;
}

void AddPending(const QueuedPtr& copy, const Use& use, SignalPtr done) {
  const auto page = [](std::byte* address) {
    return PinnedMemory() + (address - PinnedMemory()) / kPage * kPage;
  };
  const auto lock = BookLock();
  // A page's other part may be the host's, but for what is beside the allocation.
  const auto& [begin, piece] = *std::prev(ThePool().taken.upper_bound(use.begin));
  const Use pages = {page(use.begin == begin ? begin : use.begin + kPage - 1),
                     page(use.end == begin + piece.asked ? use.end + kPage - 1 : use.end),
                     use.writes};
  if (pages.begin >= pages.end) return;
  ThePool().pending.push_back({pages, copy, std::move(done)});
  Protect(pages.begin, pages.end);
}

void ReleasePending(int device) {
  const VectorClock& host = HostClock(device);
  RemovePending([&](const Pending& one) {
    return static_cast<int>(one.copy->stream / kStreamsPerDevice) == device &&
           host.times[one.copy->stream] >= one.copy->time;
  });
}

uint64_t PinnedOwner(const std::byte* address) {
  auto& taken = ThePool().taken;
  const auto next = taken.upper_bound(const_cast<std::byte*>(address));
  if (next == taken.begin()) return 0;
  const auto& [begin, piece] = *std::prev(next);
  return address < begin + piece.size ? piece.owner : 0;
}

const char* PendingCopyAt(const void* address) {
  static std::string text;
  const auto* const at = static_cast<const std::byte*>(address);
  text = "no copy uses it";
  for (const Pending& one : ThePool().pending) {
    if (!Overlaps(one, at, at + 1)) continue;
    text = one.copy->operation + " on " + StreamName(one.copy->stream) +
           (one.use.writes ? " writes it" : " reads it") + ", queued by " + one.copy->place.Text();
  }
  return text.c_str();
}

}  // namespace ddprun::simulated
