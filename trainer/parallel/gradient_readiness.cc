#include "trainer/parallel/gradient_readiness.h"

#include <algorithm>

#include "base/check.h"

namespace ddprun::trainer {

void GradientReadiness::SetBuckets(const std::vector<std::vector<size_t>>& members) {
  missing_.assign(members.size(), 0);
  for (size_t bucket = 0; bucket < members.size(); ++bucket) {
    for (const size_t index : members[bucket]) slots_[index].bucket = bucket;
  }
}

void GradientReadiness::Forget() {
  graph_known_ = false;
  for (Slot& slot : slots_) slot = {.bucket = slot.bucket};
}

void GradientReadiness::Begin() {
  std::fill(missing_.begin(), missing_.end(), 0);
  for (Slot& slot : slots_) {
    slot.ready = false;
    slot.calls = 0;
    ++missing_[slot.bucket];
  }
}

bool GradientReadiness::NoteGradient(size_t index) {
  Slot& slot = slots_[index];
  slot.used = true;
  ++slot.calls;
  // The first backward of a static graph counts how often each gradient comes.
  return !IsFirstOfStaticGraph() && slot.calls >= slot.expected_calls;
}

void GradientReadiness::SetReady(size_t index) {
  Slot& slot = slots_[index];
  DDPRUN_CHECK(!slot.ready);
  slot.ready = true;
  --missing_[slot.bucket];
}

void GradientReadiness::EndFirstOfStaticGraph() {
  for (size_t index = 0; index < slots_.size(); ++index) {
    slots_[index].expected_calls = slots_[index].calls;
    if (slots_[index].calls > 0) SetReady(index);
  }
}

void GradientReadiness::NoteSynchronised() {
  for (Slot& slot : slots_) slot.used = false;
  graph_known_ = static_graph_;
}

}  // namespace ddprun::trainer
