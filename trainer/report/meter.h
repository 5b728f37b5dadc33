// Averages and rates for the log. Pure: the caller passes the times. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ddprun::trainer {

// The mean of the values that were added since the last Reset().
class MeanMeter {
 public:
  void Add(double value);
  // Returns NaN if nothing was added, because this mean is not 0.
  double mean() const;
  int64_t count() const { return count_; }
  double sum() const { return sum_; }
  // Sets the meter as if `count` values with this sum had been added.
  void Restore(double sum, int64_t count) {
    sum_ = sum;
    count_ = count;
  }
  void Reset();

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

// Units per second over the last `window` additions, so that a slow first step (page faults,
// measuring of engines) soon has no effect.
class RateMeter {
 public:
  explicit RateMeter(size_t window) : window_(window) {}

  // Adds `amount` units that took `seconds`.
  void Add(double amount, double seconds);
  // Returns units per second; 0 until time has passed.
  double per_second() const;
  // Returns the mean seconds of one addition; 0 without any.
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
