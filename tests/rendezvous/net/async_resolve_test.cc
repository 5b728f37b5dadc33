#include "rendezvous/net/async_resolve.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>

namespace ddprun::rendezvous {
namespace {

constexpr uid_t kNobody = 65534;

// Exit codes of the child.
constexpr int kTold = 0;
constexpr int kNotTold = 1;
constexpr int kThrown = 2;

int ResolveWithoutThreads() {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_NPROC, &none);
  // The limit does not hold for the superuser.
  if (::geteuid() == 0 && ::setuid(kNobody) != 0) return kThrown;
  bool told = false;
  try {
    asio::io_context io;
    const AsyncResolve resolve(io, "no-such-host.invalid",
                               [&](const auto& result) { told = !result.has_value(); });
    io.run();
  } catch (const std::exception&) {
    return kThrown;
  }
  return told ? kTold : kNotTold;
}

TEST(AsyncResolve, SaysSoWhenNoThreadCanBeStarted) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(ResolveWithoutThreads());
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), kTold);
}

}  // namespace
}  // namespace ddprun::rendezvous
