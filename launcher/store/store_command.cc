#include "launcher/store/store_command.h"

#include <cstdio>

#include "launcher/store/store_options.h"

namespace ddprun::launcher {

Result<int> RunStoreCommand(const std::vector<std::string>& args, const Environment& env) {
  DDPRUN_ASSIGN(const StoreOptions options, ParseStoreOptions(args, env));
  if (const auto* help = std::get_if<StoreHelp>(&options)) {
    std::fputs(help->text.c_str(), stdout);
    return 0;
  }
  if (const auto* serve = std::get_if<StoreServeOptions>(&options)) return ServeStore(*serve);
  return AskStore(std::get<StoreAskOptions>(options), stdout);
}

}  // namespace ddprun::launcher
