#include <gmock/gmock.h>
#include <signal.h>

#include "launcher/report/evidence.h"

namespace ddprun::launcher {
namespace {

using testing::HasSubstr;

constexpr Signaled kDumped{SIGSEGV, true};

TEST(CoreDump, IsWhereThePatternSays) {
  EXPECT_EQ(ExplainCoreDump(kDumped, 812, {.pattern = "core", .folder = "/home/me"}),
            "its core should be /home/me/core");
  EXPECT_EQ(
      ExplainCoreDump(kDumped, 812, {.pattern = "core", .uses_pid = true, .folder = "/home/me"}),
      "its core should be /home/me/core.812");
  EXPECT_EQ(ExplainCoreDump(kDumped, 812,
                            {.pattern = "/var/%h/%%core.%e.%p", .uses_pid = true, .host = "node1"}),
            "its core should be /var/node1/%core.*.812");
}

TEST(CoreDump, IsAskedForWhereAProgramCollectsIt) {
  EXPECT_EQ(ExplainCoreDump(kDumped, 812, {.pattern = "|/usr/lib/systemd/systemd-coredump %P %u"}),
            "`coredumpctl info 812` shows it, `coredumpctl debug 812` opens it");
  EXPECT_THAT(ExplainCoreDump(kDumped, 812, {.pattern = "|/usr/share/apport/apport -p%p"}),
              HasSubstr("/var/crash"));
  EXPECT_EQ(ExplainCoreDump(kDumped, 812, {.pattern = "|/opt/collect --pid %p"}),
            "its core went to /opt/collect");
}

TEST(CoreDump, ThatIsMissingHasAReason) {
  EXPECT_THAT(ExplainCoreDump({SIGABRT, false}, 1, {.pattern = "core"}), HasSubstr("ulimit -c"));
  EXPECT_THAT(ExplainCoreDump({SIGABRT, false}, 1, {.pattern = "core", .limit_bytes = 1}),
              HasSubstr("core_pattern is core"));
}

TEST(CoreDump, IsNoMatterOfSignalsThatMakeNone) {
  EXPECT_EQ(ExplainCoreDump({SIGKILL, false}, 1, {}), "");
  EXPECT_EQ(ExplainCoreDump({SIGTERM, false}, 1, {}), "");
}

TEST(CoreDump, PolicyOfThisMachineCanBeRead) {
  EXPECT_FALSE(ReadCorePolicy().folder.empty());
}

}  // namespace
}  // namespace ddprun::launcher
