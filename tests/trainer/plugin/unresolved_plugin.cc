// Calls a function that no library defines.
#include <ddprun/plugin.h>

namespace lost {
int64_t NowhereDefined();
}

namespace {

std::unique_ptr<ddprun::Dataset> Open(const ddprun::PluginDataOptions&) {
  if (lost::NowhereDefined() > 0) throw std::runtime_error("unreachable");
  return nullptr;
}

}  // namespace

DDPRUN_PLUGIN(.dataset = Open)
