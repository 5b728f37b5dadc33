// One collective's entry in the flight recorder, from start to end.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/flight_recorder.h"

namespace ddprun::trainer {

// Only the thread that runs the collective may use it. Without a recorder, all methods do nothing.
class Recording {
 public:
  Recording() = default;
  // `ticket` is from FlightRecorder::Schedule(); 0 means that the collective has no ticket yet.
  Recording(FlightRecorder* recorder, uint64_t ticket) : recorder_(recorder), ticket_(ticket) {}
  Recording(Recording&& other) noexcept
      : recorder_(std::exchange(other.recorder_, nullptr)), ticket_(other.ticket_) {}
  Recording& operator=(Recording&&) = delete;
  // Records the end of the collective if Start() has recorded its start.
  ~Recording() {
    if (recorder_ != nullptr && started_) recorder_->End(ticket_, succeeded_);
  }

  bool started() const { return started_; }
  void Start(const Collective& collective) {
    if (recorder_ == nullptr) return;
    if (ticket_ == 0) ticket_ = recorder_->Schedule(collective);
    recorder_->Start(ticket_, collective);
    started_ = true;
  }
  void SetWaiting(bool waits) const {
    if (recorder_ != nullptr) recorder_->SetWaiting(ticket_, waits);
  }
  void Fail() { succeeded_ = false; }
  // See FlightRecorder::StepAndBucket.
  std::string StepAndBucket() const {
    return recorder_ == nullptr ? "" : recorder_->StepAndBucket(ticket_);
  }

 private:
  FlightRecorder* recorder_ = nullptr;
  uint64_t ticket_ = 0;
  bool started_ = false;
  bool succeeded_ = true;
};

}  // namespace ddprun::trainer
