// One collective's entry in the flight recorder and in the log of spans, from start to end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/flight_recorder.h"
#include "base/span_log.h"

namespace ddprun::trainer {

// Only the thread that runs the collective may use it.
class Recording {
 public:
  Recording() = default;
  // `recorder` may be nullptr. `ticket` is from FlightRecorder::Schedule(); 0 means that the
  // collective has no ticket yet.
  Recording(FlightRecorder* recorder, uint64_t ticket) : recorder_(recorder), ticket_(ticket) {}
  Recording(Recording&& other) noexcept
      : recorder_(std::exchange(other.recorder_, nullptr)),
        ticket_(other.ticket_),
        span_(std::exchange(other.span_, std::nullopt)) {}
  Recording& operator=(Recording&&) = delete;
  // Records the end of the collective if Start() has recorded its start.
  ~Recording() {
    if (span_) AddSpan();
    if (recorder_ != nullptr && started_) recorder_->End(ticket_, succeeded_);
  }

  bool started() const { return started_; }
  void Start(const Collective& collective) {
    if (!span_ && SpanLog::OfProcess().is_open()) {
      span_ = TimeSpan{.name = NameOf(collective.kind),
                       .begin = std::chrono::steady_clock::now(),
                       .is_collective = true,
                       .collective = collective};
    }
    if (recorder_ == nullptr) return;
    if (ticket_ == 0) ticket_ = recorder_->Schedule(collective);
    recorder_->Start(ticket_, collective);
    started_ = true;
  }
  // `waits` means that the collective waits for another rank.
  void SetWaiting(bool waits) {
    if (recorder_ != nullptr) recorder_->SetWaiting(ticket_, waits);
    if (!span_) return;
    const TimeSpan::Time now = std::chrono::steady_clock::now();
    if (waiting_since_) span_->waited += now - *waiting_since_;
    waiting_since_ = waits ? std::optional(now) : std::nullopt;
  }
  void Fail() { succeeded_ = false; }
  // See FlightRecorder::StepAndBucket.
  std::string StepAndBucket() const {
    return recorder_ == nullptr ? "" : recorder_->StepAndBucket(ticket_);
  }

 private:
  void AddSpan() {
    span_->end = std::chrono::steady_clock::now();
    if (waiting_since_) span_->waited += span_->end - *waiting_since_;
    span_->where = StepAndBucket();
    SpanLog::OfProcess().Add(*std::move(span_));
  }

  FlightRecorder* recorder_ = nullptr;
  uint64_t ticket_ = 0;
  bool started_ = false;
  bool succeeded_ = true;
  std::optional<TimeSpan> span_ = {};
  std::optional<TimeSpan::Time> waiting_since_ = {};
};

}  // namespace ddprun::trainer
