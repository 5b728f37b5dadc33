#include "base/span_log.h"

#include <algorithm>
#include <utility>

namespace ddprun {

SpanLog& SpanLog::OfProcess() {
  static SpanLog log;
  return log;
}

void SpanLog::Open() {
  const std::lock_guard lock(mutex_);
  spans_.clear();
  lost_ = 0;
  opened_ = std::chrono::steady_clock::now();
  open_ = true;
}

void SpanLog::Add(TimeSpan span) {
  const std::lock_guard lock(mutex_);
  if (!open_) return;
  if (spans_.size() == kMostSpans) {
    ++lost_;
    return;
  }
  span.begin = std::max(span.begin, opened_);
  spans_.push_back(std::move(span));
}

SpanLog::Spans SpanLog::Close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  return {std::exchange(spans_, {}), lost_};
}

}  // namespace ddprun
