// Checks and loads a plugin's file, and calls its code. Any exception of this code becomes a
// Failure that names the plugin.
#pragma once

#include <memory>
#include <string>

#include <ddprun/plugin.h>
#include "base/failure.h"

namespace ddprun::trainer {

// A loaded plugin; a value type. Its code stays loaded until the process ends.
class Plugin {
 public:
  const std::string& path() const { return path_; }

  // Each method throws Failure if the plugin has no such entry, if its code threw, or if it
  // returned nullptr.
  void RequireModel() const;
  void RequireObserver() const;
  std::shared_ptr<PluginModel> MakeModel(const PluginModelOptions& options) const;
  std::unique_ptr<Dataset> OpenDataset(const PluginDataOptions& options) const;
  std::unique_ptr<RunObserver> MakeObserver(const PluginObserverOptions& options) const;

 private:
  friend Plugin LoadPlugin(const std::string& path);
  Plugin(std::string path, const PluginEntries* entries)
      : path_(std::move(path)), entries_(entries) {}

  std::string path_;
  const PluginEntries* entries_;
};

// Loads a plugin. Loading a file a second time costs little. Throws Failure if there is no such
// file, if it is not a shared object or a plugin, if it was made for another ddprun, PyTorch or C++
// library, or if the dynamic linker refuses it. Any thread.
Plugin LoadPlugin(const std::string& path);

// Returns the error "PLUGIN CANNOT BE USED".
Failure UnusablePlugin(const std::string& path, const std::string& what, const std::string& hint);

// Returns the error "ERROR IN THE PLUGIN": its code threw, or returned a wrong value.
Failure PluginError(const std::string& path, const std::string& what);

// Throws the current exception as a Failure. Call it only in a catch block. `doing` is such as
// "making the model".
[[noreturn]] void RethrowFromPlugin(const std::string& path, const std::string& doing);

// Calls call(). If it throws, `doing()` describes the call for the error.
template <typename Call, typename Doing>
auto CallPlugin(const std::string& path, const Doing& doing, const Call& call) {
  try {
    return call();
  } catch (...) {
    RethrowFromPlugin(path, doing());
  }
}

}  // namespace ddprun::trainer
