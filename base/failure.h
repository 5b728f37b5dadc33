// The exception that carries an Error through code which uses LibTorch, where c10::Error passes
// anyway. One top-level catch (apps) turns it into text, error file and exit status.
#pragma once

#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/result.h"

namespace ddprun {

class Failure : public std::runtime_error {
 public:
  explicit Failure(Error error) : std::runtime_error(error.what), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// An error that every rank has found by itself, at the same place: one of them reports it.
class FailureOfAllRanks : public Failure {
  using Failure::Failure;
};

// The value of a Result, or its Error thrown as a Failure.
template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.has_value()) throw Failure(std::move(result).error());
  return *std::move(result);
}

inline void ThrowIfError(Status status) {
  if (!status.ok()) throw Failure(std::move(status).error());
}

}  // namespace ddprun
