// Calls a function that no library defines.
#include "trainer/plugin/plugin.h"

namespace lost {
int64_t NowhereDefined();
}

namespace {

std::unique_ptr<ddprun::trainer::Dataset> Open(const ddprun::trainer::PluginDataOptions&) {
  if (lost::NowhereDefined() > 0) throw std::runtime_error("unreachable");
  return nullptr;
}

}  // namespace

DDPRUN_PLUGIN(.dataset = Open)
