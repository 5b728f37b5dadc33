#pragma once

#include <exception>
#include <functional>
#include <string>

namespace ddprun::simulated {

// The text of what `function` throws.
inline std::string Thrown(const std::function<void()>& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace ddprun::simulated
