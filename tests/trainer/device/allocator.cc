#include "tests/trainer/device/allocator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <utility>

#include "tests/trainer/device/graph.h"
#include "tests/trainer/device/race_detector.h"

namespace ddprun::simulated {
namespace {

constexpr size_t kGranule = 512;
// Freed blocks are not given out for a while, so that their use is noticed.
constexpr size_t kKeptBlocks = 16;
constexpr size_t kKeptBytes = 64 << 20;

// A freed block that other streams may still use.
struct Waiting {
  Block* block;
  std::vector<Event> events;
};

// Freed blocks of a stream.
struct Cached {
  std::multimap<size_t, Block*> ready = {};  // by size
  std::deque<Block*> kept = {};
  size_t kept_bytes = 0;
  size_t unchecked = 0;  // of the last ones of `kept`
};

struct Arena {
  std::map<std::byte*, size_t> free = {};  // of no stream
  std::map<std::byte*, std::unique_ptr<Block>> blocks = {};
  std::map<std::pair<uint64_t, size_t>, Cached> cached = {};  // by pool and stream
  std::list<Waiting> waiting = {};
  size_t limit = kDeviceBytes;
  size_t reserved = 0;  // of all blocks
  size_t reserved_peak = 0;
  MemoryUse use = {};
  bool is_open = false;
};

struct Arenas {
  std::array<Arena, kDevices> all;
};

// Under BookLock().
Arena& ArenaOf(int device) {
  static Arenas* const arenas = new Arenas;
  Arena& arena = arenas->all[static_cast<size_t>(device)];
  if (!std::exchange(arena.is_open, true)) arena.free.emplace(MemoryOf(device), kDeviceBytes);
  return arena;
}

Queued Here() {
  return {.operation = Doing::Operation()};
}

void Cache(Arena& arena, Block* block) {
  Cached& cached = arena.cached[{block->pool, block->stream}];
  cached.kept.push_back(block);
  cached.kept_bytes += block->size;
  ++cached.unchecked;
}

// Checks all freed blocks, because a real allocator may give out any of them next.
void CheckKept(Cached& cached, const VectorClock& clock) {
  while (cached.unchecked > 0) {
    CheckReuse(*cached.kept[cached.kept.size() - cached.unchecked--], clock);
  }
  while (cached.kept.size() > kKeptBlocks || cached.kept_bytes > kKeptBytes) {
    Block* const block = cached.kept.front();
    cached.kept.pop_front();
    cached.kept_bytes -= block->size;
    cached.ready.emplace(block->size, block);
  }
}

// Makes blocks available that no stream uses now.
void ReturnWaiting(Arena& arena) {
  for (auto one = arena.waiting.begin(); one != arena.waiting.end();) {
    const auto is_set = [](const Event& event) { return event.signal->IsSet(); };
    if (!std::ranges::all_of(one->events, is_set)) {
      ++one;
      continue;
    }
    // The host has seen the events, so later work is ordered after them.
    for (const Event& event : one->events) ClockOf(one->block->stream).Join(event.clock);
    Cache(arena, one->block);
    one = arena.waiting.erase(one);
  }
}

Block* FromCache(Arena& arena, uint64_t pool, size_t stream, size_t size) {
  Cached& cached = arena.cached[{pool, stream}];
  CheckKept(cached, ClockOf(stream));
  const auto found = cached.ready.lower_bound(size);
  if (found == cached.ready.end() || found->first > 2 * size) return nullptr;
  Block* const block = found->second;
  cached.ready.erase(found);
  return block;
}

Block* FromFree(Arena& arena, uint64_t pool, size_t stream, size_t size) {
  if (arena.reserved + size > arena.limit) return nullptr;
  const auto fits = [&](const auto& piece) { return piece.second >= size; };
  const auto found = std::ranges::find_if(arena.free, fits);
  if (found == arena.free.end()) return nullptr;
  const auto [begin, length] = *found;
  arena.free.erase(found);
  if (length > size) arena.free.emplace(begin + size, length - size);
  arena.reserved += size;
  arena.reserved_peak = std::max(arena.reserved_peak, arena.reserved);
  auto& block = arena.blocks[begin];
  block =
      std::make_unique<Block>(Block{.begin = begin, .size = size, .stream = stream, .pool = pool});
  return block.get();
}

void AddFree(Arena& arena, std::byte* begin, size_t size) {
  auto next = arena.free.lower_bound(begin);
  if (next != arena.free.end() && begin + size == next->first) {
    size += next->second;
    next = arena.free.erase(next);
  }
  if (next != arena.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += size;
      return;
    }
  }
  arena.free.emplace(begin, size);
}

// Waits for all streams, then frees all cached blocks, as a real device does. `pool` is the pool of
// a destroyed graph; 0 means the common pool.
void EmptyCache(int device, uint64_t pool = 0) {
  const std::vector<Event> events = RecordAll(device);
  for (const Event& event : events) event.signal->Wait();
  const auto lock = BookLock();
  Arena& arena = ArenaOf(device);
  ReturnWaiting(arena);
  for (const Event& event : events) {
    // All later work is after all of this.
    for (int id = 0; id < kStreamsPerDevice; ++id) {
      ClockOf(static_cast<size_t>(device * kStreamsPerDevice + id)).Join(event.clock);
    }
  }
  const auto release = [&](const Block& block) {
    arena.reserved -= block.size;
    AddFree(arena, block.begin, block.size);
    arena.blocks.erase(block.begin);
  };
  std::vector<const Block*> unused;
  for (const auto& [key, cached] : arena.cached) {
    if (key.first != 0) continue;
    for (const auto& [size, block] : cached.ready) unused.push_back(block);
    unused.insert(unused.end(), cached.kept.begin(), cached.kept.end());
  }
  for (const auto& [begin, block] : arena.blocks) {
    if (pool == 0 || block->pool != pool) continue;
    block->pool = 0;
    if (!block->in_use) unused.push_back(block.get());
  }
  std::erase_if(arena.cached,
                [&](const auto& one) { return one.first.first == 0 || one.first.first == pool; });
  for (const Block* block : unused) release(*block);
}

Block* Find(Arena& arena, uint64_t pool, size_t stream, size_t size) {
  ReturnWaiting(arena);
  Block* const block = FromCache(arena, pool, stream, size);
  return block != nullptr ? block : FromFree(arena, pool, stream, size);
}

[[noreturn]] void ThrowOutOfMemory(int device, size_t size, const Arena& arena) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "simulated device ", device,
                   " is out of memory: ", Doing::Operation(), " asked for ", size, " bytes; ",
                   arena.use.in_use, " of ", arena.limit, " bytes are in use\n  ", Place().Text());
}

Block* Take(int device, size_t bytes) {
  const size_t size = (bytes + kGranule - 1) / kGranule * kGranule;
  const size_t stream = IndexOf(CurrentStream(device));
  auto lock = BookLock();
  Arena& arena = ArenaOf(device);
  const Capture* const capture = CaptureOf(stream);
  const uint64_t pool = capture == nullptr ? 0 : capture->id;
  Block* block = Find(arena, pool, stream, size);
  if (block == nullptr) {
    lock.unlock();
    EmptyCache(device);
    lock.lock();
    block = Find(arena, pool, stream, size);
  }
  if (block == nullptr) ThrowOutOfMemory(device, bytes, arena);
  static uint64_t owners = 0;
  block->in_use = true;
  block->owner = ++owners;
  block->requested = bytes;
  block->taken_by = Here();
  arena.use.in_use += block->size;
  arena.use.peak = std::max(arena.use.peak, arena.use.in_use);
  return block;
}

void Free(void* context) {
  Block* const block = static_cast<Block*>(context);
  const int device = static_cast<int>(block->stream / kStreamsPerDevice);
  Queued here = Here();
  Waiting waiting = {block, {}};
  auto lock = BookLock();
  Arena& arena = ArenaOf(device);
  block->in_use = false;
  block->freed_by = std::move(here);
  arena.use.in_use -= block->size;
  const std::set<size_t> others = std::exchange(block->other_streams, {});
  if (others.empty()) {
    Cache(arena, block);
    return;
  }
  if (block->pool != 0) return;  // while the graph lives, other streams may use the block again
  lock.unlock();
  for (const size_t index : others) {
    RecordInQueue(
        waiting.events.emplace_back(),
        c10::Stream(c10::Stream::UNSAFE, DeviceAt(static_cast<int>(index / kStreamsPerDevice)),
                    static_cast<c10::StreamId>(index % kStreamsPerDevice)));
  }
  lock.lock();
  arena.waiting.push_back(std::move(waiting));
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device = DeviceAt(CurrentDevice());
    if (bytes == 0) return {nullptr, device};
    Block* const block = Take(device.index(), bytes);
    return {block->begin, block, &Free, device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    const auto use = [&](const void* at, bool writes) {
      auto* const begin = static_cast<std::byte*>(const_cast<void*>(at));
      return Use{.begin = begin, .end = begin + bytes, .writes = writes};
    };
    Queue(CurrentStream(DeviceOf(to)), {use(from, false), use(to, true)},
          [=] { std::memcpy(ForKernels(to), ForKernels(from), bytes); });
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    for (int device = 0; device < kDevices; ++device) EmptyCache(device);
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    const auto lock = BookLock();
    Block* const block = BlockAt(static_cast<const std::byte*>(data.get()));
    if (block != nullptr && IndexOf(stream) != block->stream) {
      block->other_streams.insert(IndexOf(stream));
    }
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto lock = BookLock();
    const Arena& arena = ArenaOf(device);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = static_cast<int64_t>(arena.use.in_use);
    stats.allocated_bytes[0].peak = static_cast<int64_t>(arena.use.peak);
    stats.reserved_bytes[0].current = static_cast<int64_t>(arena.reserved);
    stats.reserved_bytes[0].peak = static_cast<int64_t>(arena.reserved_peak);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    const auto lock = BookLock();
    Arena& arena = ArenaOf(device);
    arena.use.peak = arena.use.in_use;
    arena.reserved_peak = arena.reserved;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto lock = BookLock();
    const Arena& arena = ArenaOf(device);
    return {arena.limit - arena.use.in_use, arena.limit};
  }
};

// Registers itself; never destroyed, as tensors may outlive it.
const bool registered = [] {
  c10::SetAllocator(kDeviceType, &TheAllocator());
  return true;
}();

}  // namespace

c10::DeviceAllocator& TheAllocator() {
  static Allocator* const allocator = new Allocator;
  return *allocator;
}

Block* BlockAt(const std::byte* address) {
  const int device = DeviceOf(address);
  if (device < 0) return nullptr;
  auto& blocks = ArenaOf(device).blocks;
  const auto next = blocks.upper_bound(const_cast<std::byte*>(address));
  if (next == blocks.begin()) return nullptr;
  Block* const block = std::prev(next)->second.get();
  return address < block->begin + block->size ? block : nullptr;
}

void ReleasePool(int device, uint64_t pool) {
  EmptyCache(device, pool);
}

void SetMemoryLimit(int device, size_t bytes) {
  const auto lock = BookLock();
  ArenaOf(device).limit = std::min(bytes, kDeviceBytes);
}

MemoryUse MemoryUseOf(int device) {
  const auto lock = BookLock();
  const Arena& arena = ArenaOf(device);
  MemoryUse use = arena.use;
  use.cached = arena.reserved - arena.use.in_use;
  return use;
}

}  // namespace ddprun::simulated
