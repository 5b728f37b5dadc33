#include <cstdio>

#include <ddprun/error.h>
#include "launcher/commands.h"
#include "rendezvous/secure/token.h"

namespace ddprun::launcher {

namespace {

constexpr const char* kTokenHelp = R"(usage: ddprun token

Prints a new random token: the secret by which the nodes of a job know each other.

  (umask 077; ddprun token > ~/job.token)
  export DDPRUN_TOKEN_FILE=~/job.token      on each node, before ddprun

  DDPRUN_TOKEN_FILE=FILE   a file with the token, which no other user can read
  DDPRUN_TOKEN=TEXT        the token itself; counts before the file
)";

}  // namespace

Result<int> RunToken(const std::vector<std::string>& args, const Environment& /*env*/) {
  if (!args.empty() && args.front() != "--help" && args.front() != "-h") {
    return Error{.code = Code::kUsage,
                 .title = "TOO MANY WORDS",
                 .where = args.front(),
                 .what = "`ddprun token` takes no words.",
                 .hint = "Run `ddprun token --help`.",
                 .page = "token"};
  }
  std::fputs(args.empty() ? (rendezvous::NewTokenText() + "\n").c_str() : kTokenHelp, stdout);
  return 0;
}

}  // namespace ddprun::launcher
