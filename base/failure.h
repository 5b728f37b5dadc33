// Between Results and Failures: code without LibTorch returns Results, code with LibTorch throws.
#pragma once

#include <utility>

#include <ddprun/error.h>
#include "base/result.h"

namespace ddprun {

// Returns the value of a Result, or throws its Error as a Failure.
template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.has_value()) throw Failure(std::move(result).error());
  return *std::move(result);
}

inline void ThrowIfError(Status status) {
  if (!status.ok()) throw Failure(std::move(status).error());
}

}  // namespace ddprun
