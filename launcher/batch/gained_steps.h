// A number in memory by which a worker tells the launcher how many steps this start has saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace ddprun::launcher {

class GainedSteps {
 public:
  // The variable with path(). A worker writes a whole number into this file.
  static constexpr const char* kVariable = "DDPRUN_GAINED_STEPS_FILE";

  static Result<GainedSteps> Create();

  // Returns a path that processes of this user can open while this object lives. It leaves no file.
  std::string path() const;
  // Returns nullopt if no worker has written a number.
  std::optional<int64_t> Read() const;

 private:
  explicit GainedSteps(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace ddprun::launcher
