#include "trainer/plugin/call_plugin.h"

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <cxxabi.h>

#include <exception>
#include <typeinfo>

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

std::string ExceptionText() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "no std::exception, but an object of type " +
           c10::demangle(abi::__cxa_current_exception_type()->name());
  }
}

void RethrowFromPlugin(const std::string& path, const std::string& doing) {
  try {
    throw;
  } catch (const Failure&) {
    throw;  // of ddprun's own code, which plugins may use
  } catch (...) {
    throw PluginError(path, "While " + doing + ", the plugin threw:\n" + ExceptionText());
  }
}

}  // namespace ddprun::trainer
