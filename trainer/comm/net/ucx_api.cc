#include "trainer/comm/net/ucx_api.h"

#include <dlfcn.h>

#include <array>
#include <csignal>
#include <mutex>

#include "base/env.h"

namespace ddprun::trainer {

namespace {

// Restores the signal handlers that UCX replaces while it is loaded. UCX has a variable against
// this, but reads it only from the environment.
class SignalHandlersKept {
 public:
  SignalHandlersKept() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  ~SignalHandlersKept() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_[i], nullptr);
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

 private:
  static constexpr std::array kSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  std::array<struct sigaction, kSignals.size()> actions_{};
};

Error NotLoaded(const std::string& why) {
  return Error{.title = "NO UCX",
               .what =
                   "The ranks are on several nodes, and UCX, which connects them, cannot be "
                   "loaded: " +
                   why,
               .hint = "Install it on every node (Debian, Ubuntu: apt-get install libucx0).",
               .page = "no-ucx"};
}

template <typename Function>
void Look(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) missing = name;
}

std::string LookUpAll(void* library, UcxApi& api) {
  std::string missing;
  Look(library, "ucp_config_read", api.config_read, missing);
  Look(library, "ucp_config_modify", api.config_modify, missing);
  Look(library, "ucp_config_release", api.config_release, missing);
  Look(library, "ucp_init_version", api.init_version, missing);
  Look(library, "ucp_cleanup", api.cleanup, missing);
  Look(library, "ucp_worker_create", api.worker_create, missing);
  Look(library, "ucp_worker_destroy", api.worker_destroy, missing);
  Look(library, "ucp_worker_get_address", api.worker_get_address, missing);
  Look(library, "ucp_worker_release_address", api.worker_release_address, missing);
  Look(library, "ucp_worker_get_efd", api.worker_get_efd, missing);
  Look(library, "ucp_worker_progress", api.worker_progress, missing);
  Look(library, "ucp_worker_arm", api.worker_arm, missing);
  Look(library, "ucp_worker_signal", api.worker_signal, missing);
  Look(library, "ucp_worker_flush_nbx", api.worker_flush_nbx, missing);
  Look(library, "ucp_ep_create", api.ep_create, missing);
  Look(library, "ucp_ep_close_nbx", api.ep_close_nbx, missing);
  Look(library, "ucp_tag_send_nbx", api.tag_send_nbx, missing);
  Look(library, "ucp_tag_recv_nbx", api.tag_recv_nbx, missing);
  Look(library, "ucp_tag_probe_nb", api.tag_probe_nb, missing);
  Look(library, "ucp_tag_msg_recv_nbx", api.tag_msg_recv_nbx, missing);
  Look(library, "ucp_request_check_status", api.request_check_status, missing);
  Look(library, "ucp_request_cancel", api.request_cancel, missing);
  Look(library, "ucp_request_free", api.request_free, missing);
  Look(library, "ucs_status_string", api.status_string, missing);
  return missing;
}

// Turns off UCX's log of lost peers on stdout, because ddprun returns an Error for them.
void KeepQuiet(void* library, const Environment& environment) {
  using SetOption = int(const char* name, const char* value);
  auto* set = reinterpret_cast<SetOption*>(dlsym(library, "ucs_global_opts_set_value"));
  if (set != nullptr && !environment.Get("UCX_LOG_LEVEL")) set("LOG_LEVEL", "fatal");
}

Result<const UcxApi*> Load() {
  static UcxApi api;
  const Environment environment = Environment::OfProcess();
  std::optional<SignalHandlersKept> kept;
  if (!environment.Get("UCX_ERROR_SIGNALS")) kept.emplace();
  // Never closes the library, because UCX leaves a thread and hooks behind.
  void* library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotLoaded(dlerror());
  const std::string missing = LookUpAll(library, api);
  if (!missing.empty()) return NotLoaded("libucp.so.0 has no " + missing);
  KeepQuiet(library, environment);
  return &api;
}

}  // namespace

Result<const UcxApi*> LoadUcx() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static const Result<const UcxApi*> loaded = Load();
  return loaded;
}

}  // namespace ddprun::trainer
