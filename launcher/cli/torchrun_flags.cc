#include "launcher/cli/torchrun_flags.h"

#include <algorithm>
#include <array>

namespace ddprun::launcher {

namespace {

constexpr std::array<std::string_view, 24> kNames = {
    "rdzv_backend",
    "rdzv_endpoint",
    "rdzv_id",
    "rdzv_conf",
    "max_restarts",
    "monitor_interval",
    "start_method",
    "event_log_handler",
    "role",
    "run_path",
    "log_dir",
    "r",
    "redirects",
    "t",
    "tee",
    "local_ranks_filter",
    "duplicate_stdout_filters",
    "duplicate_stderr_filters",
    "local_addr",
    "logs_specs",
    "numa_binding",
    "signals_to_handle",
    "virtual_local_rank",
    "use_env",
};

}  // namespace

bool IsTorchrunFlag(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace ddprun::launcher
