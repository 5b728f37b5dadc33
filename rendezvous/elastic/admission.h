// When new nodes may take part in a round. They wait longer with each short round in a row, because
// a node that comes and crashes again and again would keep the others from their work. Pure.
#pragma once

#include <algorithm>
#include <chrono>

namespace ddprun::rendezvous {

class Admission {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A round starts, or begins anew with another node.
  void OnStart(Time now) { started_ = now; }
  // A round has lost a node.
  void OnLoss(Time now) {
    constexpr std::chrono::seconds kLongEnough{60};
    constexpr int kMostDoublings = 6;
    short_rounds_ = now - started_ < kLongEnough ? short_rounds_ + 1 : 0;
    if (short_rounds_ < 2) return;
    from_ = now + std::chrono::seconds(1 << std::min(short_rounds_ - 2, kMostDoublings));
  }

  Time from() const { return from_; }  // before it, new nodes must wait
  int short_rounds() const { return short_rounds_; }

 private:
  Time started_;
  int short_rounds_ = 0;
  Time from_;
};

}  // namespace ddprun::rendezvous
