#pragma once

namespace ddprun {

// "TERM" of SIGTERM; nullptr for a number without a name. As sigabbrev_np(), which glibc has since
// 2.32.
const char* SignalAbbreviation(int signal);

}  // namespace ddprun
