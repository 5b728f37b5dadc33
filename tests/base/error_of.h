// What an action throws, for tests of messages.
#pragma once

#include <gtest/gtest.h>

#include "base/failure.h"

namespace ddprun {

// The Error of the Failure that `action` throws; a failed test where it throws none.
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
