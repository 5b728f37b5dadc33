// Names a rank for which the others wait.
#pragma once

#include "trainer/report/observer.h"
#include "trainer/report/rank_times_report.h"

namespace ddprun::trainer {

// Writes a line if the same rank needs far more time of its own than the others for long.
class SlowRanks final : public Observer {
 public:
  static constexpr double kTimes = 1.25;  // the median of the others
  static constexpr double kSeconds = 10;  // so long, without a break
  static constexpr double kPause = 600;   // seconds from one line to the next

  // `notes` gets the lines, and must outlive this object.
  explicit SlowRanks(Observer& notes) : notes_(notes) {}

  void OnRankTimes(const RankTimesReport& report, ReportTime now) override;

 private:
  Observer& notes_;
  int rank_ = -1;  // the slow rank
  double since_ = 0;
  double next_ = 0;  // no line before this time
};

}  // namespace ddprun::trainer
