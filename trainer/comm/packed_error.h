// Converts an Error to bytes for other processes.
#pragma once

#include <string>
#include <string_view>

#include <ddprun/error.h>

namespace ddprun::trainer {

inline constexpr size_t kPackedErrorBytes = 2000;

// Returns at most kPackedErrorBytes, without Error::more; cuts a longer `what`.
std::string PackError(const Error& error);
// Unpacks the bytes of PackError(); never fails.
Error UnpackError(std::string_view packed);

// Returns the error of rank `rank` as this rank reports it.
Error AddReporter(int rank, Error error);

}  // namespace ddprun::trainer
