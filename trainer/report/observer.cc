#include "trainer/report/observer.h"

#include <chrono>

namespace ddprun::trainer {

namespace {

double Seconds(auto time_point) {
  return std::chrono::duration<double>(time_point.time_since_epoch()).count();
}

}  // namespace

ReportTime ReportTime::Now() {
  return {Seconds(std::chrono::system_clock::now()), Seconds(std::chrono::steady_clock::now())};
}

}  // namespace ddprun::trainer
