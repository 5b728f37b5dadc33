// A command line, one word a line, and variables as "PET_X=value" words before a line "--": options
// or an error with a title, never anything else.
#include <string>
#include <vector>

#include "base/env.h"
#include "fuzz/input.h"
#include "launcher/cli/options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddprun;
  std::vector<std::string> args(1);
  for (const char byte : fuzz::Input(data, size).Rest()) {
    if (byte == '\n') {
      args.emplace_back();
    } else if (byte != '\0') {
      args.back().push_back(byte);
    }
  }
  Environment env;
  while (!args.empty() && args.front().starts_with("PET_")) {
    const size_t equals = args.front().find('=');
    if (equals != std::string::npos) {
      env.Set(args.front().substr(0, equals), args.front().substr(equals + 1));
    }
    args.erase(args.begin());
  }
  const auto parsed = launcher::ParseOptions(args, env);
  if (!parsed.has_value()) {
    fuzz::Require(!parsed.error().title.empty());
    fuzz::Require(!Render(parsed.error()).empty());
  }
  return 0;
}
