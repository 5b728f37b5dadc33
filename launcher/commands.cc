#include "launcher/commands.h"

#include <array>

#include "launcher/doctor/doctor.h"
#include "launcher/store/store_command.h"

namespace ddprun::launcher {

namespace {

constexpr std::array<Subcommand, 3> kSubcommands = {{
    {"doctor", "[--gpu] [--nodes] [--json]", "what this machine can do, and what is missing",
     RunDoctor},
    {"store", "[options]", "a store on its own, see ddprun store --help", RunStoreCommand},
    {"explain", "NAME", "what a message, or a key of a config, means", RunExplain},
}};

}  // namespace

std::span<const Subcommand> AllSubcommands() {
  return kSubcommands;
}

}  // namespace ddprun::launcher
