#include "tests/trainer/device/race_detector.h"

#include <algorithm>

namespace ddprun::simulated {
namespace {

bool Overlap(const Use& a, const Use& b) {
  return a.begin < b.end && b.begin < a.end;
}

bool Contains(const Use& outer, const Use& inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

bool IsBefore(const Access& access, const VectorClock& clock) {
  return clock.times[access.by->stream] >= access.by->time;
}

std::string Described(const Queued& queued) {
  return queued.operation + " on " + StreamName(queued.stream);
}

std::string Verb(const Use& use) {
  return use.writes ? "writes" : "reads";
}

std::string At(const Queued& queued) {
  return queued.operation + " (" + queued.place.Text() + ")";
}

[[noreturn]] void ThrowRace(const Queued& queued, const Use& use, const Access& earlier) {
  throw DeviceError("data race on device memory: " + Described(queued) + " " + Verb(use) + " " +
                    std::to_string(use.end - use.begin) + " bytes that " + Described(*earlier.by) +
                    " " + Verb(earlier.use) + ", and nothing makes it wait for that\n  " +
                    queued.operation + ": " + queued.place.Text() + "\n  " + earlier.by->operation +
                    ": " + earlier.by->place.Text());
}

[[noreturn]] void ThrowFreed(const Queued& queued, const Use& use, const Block* block) {
  throw DeviceError("use of freed device memory: " + Described(queued) + " " + Verb(use) + " " +
                    std::to_string(use.end - use.begin) + " bytes of memory that " +
                    (block == nullptr ? "nobody owns"
                                      : "was allocated by " + At(block->taken_by) +
                                            " and freed by " + At(block->freed_by)) +
                    "\n  " + queued.operation + ": " + queued.place.Text());
}

}  // namespace

void CheckUses(const QueuedPtr& queued, const VectorClock& clock, const std::vector<Use>& uses) {
  for (const Use& use : uses) {
    Block* const block = BlockAt(use.begin);
    const bool own = block != nullptr && block->pool != 0 && block->pool == queued->pool;
    if (block == nullptr || !(block->in_use || own) || use.end > block->begin + block->size) {
      ThrowFreed(*queued, use, block);
    }
    for (const Access& access : block->accesses) {
      const bool conflict = (use.writes || access.use.writes) && Overlap(use, access.use);
      if (conflict && !IsBefore(access, clock)) ThrowRace(*queued, use, access);
    }
    // Forgets accesses before this one, because work after this one is also after them.
    std::erase_if(block->accesses, [&](const Access& access) {
      return Contains(use, access.use) && IsBefore(access, clock) &&
             (use.writes || (!access.use.writes && access.by->stream == queued->stream));
    });
    block->accesses.push_back({use, queued});
  }
}

void CheckReuse(Block& block, const VectorClock& clock) {
  for (const Access& access : block.accesses) {
    if (IsBefore(access, clock)) continue;
    const std::string text =
        "device memory is given away while it is in use: " + At(block.taken_by) +
        " allocated it on " + StreamName(block.stream) + ", " + At(block.freed_by) + " freed it, " +
        Doing::Operation() + " may get it now, and " + Described(*access.by) + " " +
        Verb(access.use) + " it: record_stream, or a wait, is missing\n  " + access.by->operation +
        ": " + access.by->place.Text() + "\n  " + Doing::Operation() + ": " + Place().Text();
    throw DeviceError(text);
  }
  block.accesses.clear();
  // The new owner's other streams must wait for the stream of the old one.
  const uint64_t now = clock.times[block.stream];
  if (now == 0) return;
  const Use all = {.begin = block.begin, .end = block.begin + block.size, .writes = true};
  block.accesses.push_back(
      {all, std::make_shared<Queued>(Queued{
                .operation = "the memory's owner before", .stream = block.stream, .time = now})});
}

}  // namespace ddprun::simulated
