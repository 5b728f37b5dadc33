// A plugin's file, checked and loaded, and calls of its code: whatever leaves that becomes a
// Failure that names the plugin.
#pragma once

#include <memory>
#include <string>

#include "base/failure.h"
#include "trainer/plugin/plugin.h"

namespace ddprun::trainer {

// A loaded plugin; a value. Its code stays until the process ends.
class Plugin {
 public:
  const std::string& path() const { return path_; }

  // Each throws Failure: the plugin has none, or its code threw, or returned nullptr.
  void RequireModel() const;
  std::shared_ptr<PluginModel> MakeModel(const PluginModelOptions& options) const;
  std::unique_ptr<Dataset> OpenDataset(const PluginDataOptions& options) const;

 private:
  friend Plugin LoadPlugin(const std::string& path);
  Plugin(std::string path, const PluginEntries* entries)
      : path_(std::move(path)), entries_(entries) {}

  std::string path_;
  const PluginEntries* entries_;
};

// The same file again costs little. Throws Failure: no such file, no shared object, no plugin, made
// for another ddprun, PyTorch or C++ library, or refused by the dynamic linker. Any thread.
Plugin LoadPlugin(const std::string& path);

// "PLUGIN CANNOT BE USED".
Failure UnusablePlugin(const std::string& path, const std::string& what, const std::string& hint);

// "ERROR IN THE PLUGIN": its code threw, or gave what it must not. `what`: sentences.
Failure PluginError(const std::string& path, const std::string& what);

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
