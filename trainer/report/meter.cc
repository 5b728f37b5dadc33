#include "trainer/report/meter.h"

#include <limits>

namespace ddprun::trainer {

void MeanMeter::Add(double value) {
  sum_ += value;
  ++count_;
}

double MeanMeter::mean() const {
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  return sum_ / static_cast<double>(count_);
}

void MeanMeter::Reset() {
  sum_ = 0;
  count_ = 0;
}

void RateMeter::Add(double amount, double seconds) {
  items_.push_back({amount, seconds});
  if (items_.size() > window_) items_.pop_front();
}

// Sums the whole window each time, because the window is short and running sums would drift.
double RateMeter::per_second() const {
  double amount = 0;
  double seconds = 0;
  for (const Item& item : items_) {
    amount += item.amount;
    seconds += item.seconds;
  }
  return seconds > 0 ? amount / seconds : 0;
}

double RateMeter::seconds_each() const {
  if (items_.empty()) return 0;
  double seconds = 0;
  for (const Item& item : items_) seconds += item.seconds;
  return seconds / static_cast<double>(items_.size());
}

}  // namespace ddprun::trainer
