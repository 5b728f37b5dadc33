// How processes that are not connected yet tell each other texts, through a store of any kind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace ddprun::trainer {

// Gives `own` to `ranks`, and returns what each of them has given, in their order. A collective of
// these ranks; this process is one of them. Each `subject` has an exchange of its own.
using Exchange = std::function<Result<std::vector<std::string>>(
    const std::string& subject, const std::vector<int>& ranks, const std::string& own)>;

}  // namespace ddprun::trainer
