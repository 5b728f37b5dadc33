#include <chrono>

#include "launcher/cli/target.h"
#include "launcher/commands.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

std::string VersionsText(const Environment& env) {
  std::string text = "ddprun " DDPRUN_VERSION
                     "\ncommand line, environment and store of torchrun 2.11\n"
#ifdef __clang__
                     "clang " __clang_version__ "\n";
#else
                     "GCC " __VERSION__ "\n";
#endif
  const Result<std::string> trainer = FindTrainer(env, ProgramFolder());
  if (!trainer) return text + "no ddp-trainer found\n";
  const auto versions =
      RunForOutput({*trainer, "--version"}, env, /*with_stderr=*/false, std::chrono::seconds(2));
  const bool told = versions && versions->status == 0;
  return text + (told ? versions->text : "ddp-trainer, which does not tell\n") + *trainer + "\n";
}

}  // namespace ddprun::launcher
