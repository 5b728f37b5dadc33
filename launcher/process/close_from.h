#pragma once

namespace ddprun::launcher {

enum class When { kNow, kAtExec };

// Closes the descriptors from `first` on, as close_range() does where C library and kernel have it.
// Async-signal-safe, for a child between fork and exec.
void CloseFrom(int first, When when);

}  // namespace ddprun::launcher
