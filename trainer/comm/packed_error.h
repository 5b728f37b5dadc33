// An Error as bytes, to be told to other processes.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::trainer {

inline constexpr size_t kPackedErrorBytes = 2000;

// At most kPackedErrorBytes, without `more`; what is too long is cut.
std::string PackError(const Error& error);
// Of what PackError has made; never fails.
Error UnpackError(std::string_view packed);

// The error of another rank, as this one returns it.
Error AddReporter(int rank, Error error);

}  // namespace ddprun::trainer
