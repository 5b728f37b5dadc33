// The exception that carries an Error through code that uses LibTorch, which throws c10::Error
// anyway. A catch in apps/*/main.cc turns it into text, error file and exit status.
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

// An error that every rank has found by itself at the same place. Only one rank reports it.
class FailureOfAllRanks : public Failure {
  using Failure::Failure;
};

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
