// The chart of a search for a learning rate, for the page of a run.
#pragma once

#include <string>

#include "trainer/report/run_history.h"

namespace ddprun::trainer {

// Returns a <figure> with the loss at each learning rate, up to where it diverges, and with the
// rate at which it falls fastest. Returns "" for a run without scheduler.range_test, and for one
// without steps. Pure.
std::string RateChart(const RunHistory& run);

}  // namespace ddprun::trainer
