#include "base/abort_stack.h"

#include <gtest/gtest.h>

#include <csignal>

namespace ddprun {
namespace {

TEST(AbortStackDeathTest, PrintsFramesAndStillEndsByTheSignal) {
  EXPECT_EXIT(
      {
        PrintStackOnAbort();
        raise(SIGABRT);
      },
      testing::KilledBySignal(SIGABRT), "Stack of this worker.*\n.*base_test.*\\[0x");
}

}  // namespace
}  // namespace ddprun
