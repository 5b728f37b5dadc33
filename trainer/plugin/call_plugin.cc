#include "trainer/plugin/call_plugin.h"

#include <c10/util/Exception.h>

#include <exception>

namespace ddprun::trainer {

Failure PluginError(const std::string& path, const std::string& what) {
  return Failure(Error{.code = Code::kFailed,
                       .title = "ERROR IN THE PLUGIN",
                       .where = path,
                       .what = what,
                       .hint = "The error is in the plugin's code or in what it was given; "
                               "docs/plugins.md says what is asked of it.",
                       .page = "error-in-the-plugin"});
}

void RethrowFromPlugin(const std::string& path, const std::string& doing) {
  const std::string begin = "While " + doing + ", the plugin threw:\n";
  try {
    throw;
  } catch (const Failure&) {
    throw;  // of ddprun's own code, which plugins may use
  } catch (const c10::Error& error) {
    throw PluginError(path, begin + error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw PluginError(path, begin + error.what());
  } catch (...) {
    throw PluginError(path, begin + "something that is no std::exception.");
  }
}

}  // namespace ddprun::trainer
