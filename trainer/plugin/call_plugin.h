// Whatever leaves a plugin's code becomes a Failure that names the plugin.
#pragma once

#include <string>

#include "base/failure.h"

namespace ddprun::trainer {

// "ERROR IN THE PLUGIN": its code threw, or gave what it must not. `what`: sentences.
Failure PluginError(const std::string& path, const std::string& what);

// Only in a catch block: what the current exception says, without LibTorch's C++ backtrace.
std::string ExceptionText();

// Only in a catch block: throws the current exception as a Failure. `doing`: "making the model".
[[noreturn]] void RethrowFromPlugin(const std::string& path, const std::string& doing);

// call(), where `doing()` says afterwards what it was that failed.
template <typename Call, typename Doing>
auto CallPlugin(const std::string& path, const Doing& doing, const Call& call) {
  try {
    return call();
  } catch (...) {
    RethrowFromPlugin(path, doing());
  }
}

}  // namespace ddprun::trainer
