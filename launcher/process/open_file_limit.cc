#include "launcher/process/open_file_limit.h"

namespace ddprun::launcher {

OpenFileLimit::OpenFileLimit() {
  ::getrlimit(RLIMIT_NOFILE, &original_);
  rlimit raised = original_;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
}

}  // namespace ddprun::launcher
