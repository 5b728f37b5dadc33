#pragma once

#include <exception>
#include <functional>
#include <string>

namespace ddprun::simulated {

// Returns the text of the exception that `function` throws.
inline std::string Thrown(const std::function<void()>& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace ddprun::simulated
