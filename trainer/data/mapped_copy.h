// Copying out of mapped files that may shrink. LibTorch-free.
#pragma once

#include <cstddef>

namespace ddprun::trainer {

// memcpy from mapped memory; false where the file behind it has become shorter than what is asked
// for (the kernel then raises SIGBUS), or cannot be read any more. `to` may then hold a part of it.
// Any thread, as long as it does not block SIGBUS. The first call installs a handler; a SIGBUS from
// elsewhere goes to the handler that was there before.
bool CopyMapped(void* to, const std::byte* from, size_t bytes);

}  // namespace ddprun::trainer
