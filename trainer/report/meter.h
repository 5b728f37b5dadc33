// Averages and rates for the log. Pure: the times come from the caller. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ddprun::trainer {

// The mean of what was added since the last Reset.
class MeanMeter {
 public:
  void Add(double value);
  // NaN when nothing was added: a mean of nothing is no zero.
  double mean() const;
  int64_t count() const { return count_; }
  double sum() const { return sum_; }
  // As if so many values had been added.
  void Restore(double sum, int64_t count) {
    sum_ = sum;
    count_ = count;
  }
  void Reset();

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

// Units per second over the last `window` additions, so that a slow first step (memory being
// faulted in, engines being measured) is forgotten soon.
class RateMeter {
 public:
  explicit RateMeter(size_t window) : window_(window) {}

  // `amount` units took `seconds`.
  void Add(double amount, double seconds);
  // 0 until time has passed.
  double per_second() const;
  // Mean seconds of one addition; 0 without any.
  double seconds_each() const;

 private:
  struct Item {
    double amount;
    double seconds;
  };
  size_t window_;
  std::deque<Item> items_;
};

}  // namespace ddprun::trainer
