// The error that an action throws, for tests of messages.
#pragma once

#include <gtest/gtest.h>

#include "base/failure.h"

namespace ddprun {

// Returns the Error of the Failure that `action` throws. If it throws none, the test fails.
template <typename Action>
Error ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.error();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace ddprun
