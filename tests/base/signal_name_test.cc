#include "base/signal_name.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

namespace ddprun {
namespace {

TEST(SignalAbbreviation, IsTheOneOfTheCLibrary) {
  for (int signal = -1; signal <= NSIG; ++signal) {
    EXPECT_STREQ(SignalAbbreviation(signal), ::sigabbrev_np(signal)) << signal;
  }
}

}  // namespace
}  // namespace ddprun
