// Parses command lines for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include <ddprun/error.h>
#include "base/env.h"
#include "launcher/cli/options.h"

namespace ddprun::launcher {

using Args = std::vector<std::string>;

inline Options Parsed(const Args& args, const Environment& env = Environment()) {
  auto result = ParseOptions(args, env);
  EXPECT_TRUE(result.has_value()) << Render(result.error());
  return result.has_value() ? std::get<Options>(*result) : Options();
}

inline Error Refused(const Args& args, const Environment& env = Environment()) {
  auto result = ParseOptions(args, env);
  EXPECT_FALSE(result.has_value());
  return result.has_value() ? Error() : result.error();
}

}  // namespace ddprun::launcher
