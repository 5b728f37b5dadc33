#include "launcher/cli/options.h"

#include <gmock/gmock.h>

#include "tests/launcher/cli/parsed_options.h"

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Options, HaveTorchrunsDefaults) {
  const Options options = Parsed({"train.py"});
  EXPECT_EQ(options.nproc_per_node, "1");
  EXPECT_EQ(options.rdzv.rules.max_nodes, 1);
  EXPECT_EQ(options.rdzv.node_rank, std::nullopt);
  EXPECT_EQ(ToString(options.rdzv.endpoint), "127.0.0.1:0");
  EXPECT_EQ(options.shutdown_timeout, std::nullopt);
  EXPECT_EQ(options.target, "train.py");
}

TEST(Options, NoteFlagsOfOursThatStandBehindTheTarget) {
  EXPECT_THAT(Parsed({"train.py", "--nproc-per-node=2", "--lr=1", "--"}).notes,
              ElementsAre("--nproc-per-node=2 stands behind train.py and goes to it; flags of "
                          "ddprun stand in front of it"));
  EXPECT_THAT(Parsed({"--nnodes=1", "train.py", "--lr=1", "nnodes"}).notes, IsEmpty());
}

TEST(Options, AreSpelledWithDashesOrUnderscores) {
  for (const char* flag : {"--nproc-per-node", "--nproc_per_node", "--nproc_per-node"}) {
    EXPECT_EQ(Parsed({flag, "4", "x"}).nproc_per_node, "4");
    EXPECT_EQ(Parsed({std::string(flag) + "=4", "x"}).nproc_per_node, "4");
  }
}

TEST(Options, MayBeShortenedWhileTheyStayUnique) {
  EXPECT_EQ(Parsed({"--nproc=3", "x"}).nproc_per_node, "3");
  EXPECT_THAT(Refused({"--n=3", "x"}).hint, HasSubstr("--nnodes"));
}

TEST(Options, OfTorchrunKeepTheirShortFormsBesideOurs) {
  EXPECT_EQ(Parsed({"--e=console", "x"}).notes.size(), 1u);  // not --exit_code
  EXPECT_EQ(Parsed({"--exit_c=torchrun", "x"}).exit_code, ExitCodeStyle::kTorchrun);
}

TEST(Options, GiveEverythingBehindTheTargetToTheTarget) {
  const Options options = Parsed({"--nnodes=1", "train.py", "--nnodes=7", "-h", "--", "--x"});
  EXPECT_EQ(options.rdzv.rules.max_nodes, 1);
  EXPECT_THAT(options.target_args, ElementsAre("--nnodes=7", "-h", "--", "--x"));
}

TEST(Options, LetTheLastOfTwoWin) {
  EXPECT_EQ(Parsed({"--nproc_per_node=2", "--nproc-per-node=5", "x"}).nproc_per_node, "5");
}

TEST(Options, TakeDefaultsFromPetVariablesUnlessAFlagIsGiven) {
  const Environment env(Environment::Variables{{"PET_NPROC_PER_NODE", "auto"},
                                               {"PET_NNODES", "2"},
                                               {"PET_NODE_RANK", "1"},
                                               {"PET_MASTER_PORT", "1234"},
                                               {"PET_NO_PYTHON", "1"}});
  const Options options = Parsed({"--nproc_per_node=2", "x"}, env);
  EXPECT_EQ(options.nproc_per_node, "2");
  EXPECT_EQ(options.rdzv.rules.max_nodes, 2);
  EXPECT_EQ(options.rdzv.node_rank, 1);
  EXPECT_EQ(options.rdzv.endpoint.port, 1234);
  EXPECT_TRUE(options.no_python);
}

TEST(Options, TakeTheLogLevelFromLoglevelUnlessAFlagIsGiven) {
  const Environment env(Environment::Variables{{"LOGLEVEL", "ERROR"}});
  EXPECT_EQ(Parsed({"x"}).log_level, LogLevel::kInfo);
  EXPECT_EQ(Parsed({"x"}, env).log_level, LogLevel::kError);
  EXPECT_EQ(Parsed({"--log_level=debug", "x"}, env).log_level, LogLevel::kDebug);
}

TEST(Options, TakeARangeOfNodesThatStaticMakesItsUpperEnd) {
  const Options elastic = Parsed({"--nnodes=1:4", "--rdzv_backend=c10d", "x"});
  EXPECT_EQ(elastic.rdzv.rules.min_nodes, 1);
  EXPECT_EQ(elastic.rdzv.rules.max_nodes, 4);
  EXPECT_THAT(elastic.notes, IsEmpty());
  const Options fixed = Parsed({"--nnodes=1:4", "x"});
  EXPECT_EQ(fixed.rdzv.rules.min_nodes, 4);
  EXPECT_THAT(fixed.notes, ElementsAre(HasSubstr("--nnodes=1:4 waits for 4 nodes")));
  EXPECT_EQ(Refused({"--nnodes=3:2", "x"}).title, "BAD VALUE");
}

TEST(Options, ReadFractionsOfSecondsAndAddressesInBrackets) {
  EXPECT_EQ(Parsed({"--shutdown-timeout=0.25", "x"}).shutdown_timeout, milliseconds(250));
  EXPECT_EQ(Parsed({"--master_addr=[::1]", "x"}).rdzv.endpoint.host, "::1");
}

TEST(Options, OfStandaloneWinOverNodesAndPorts) {
  const Options options =
      Parsed({"--standalone", "--nnodes=3", "--node_rank=2", "--master_port=5", "x"});
  EXPECT_EQ(options.rdzv.rules.max_nodes, 1);
  EXPECT_EQ(options.rdzv.node_rank, 0);
  EXPECT_EQ(options.rdzv.endpoint.port, 0);
}

TEST(Options, NameFlagValueAndExpectationWhenAValueIsWrong) {
  const Error flag = Refused({"--nproc_per_node=zwei", "x"});
  EXPECT_THAT(flag.what, HasSubstr("--nproc_per_node is \"zwei\"; expected a number from 1"));
  const Error variable = Refused({"x"}, Environment(Environment::Variables{{"PET_NNODES", "0"}}));
  EXPECT_THAT(variable.what, HasSubstr("PET_NNODES is \"0\""));
  for (const char* text : {"--nproc_per_node=0",
                           "--nproc_per_node=-1",
                           "--nproc_per_node=",
                           "--node_rank=1",
                           "--master_port=65536",
                           "--master_addr=",
                           "--shutdown_timeout=-1",
                           "--shutdown_timeout=nan",
                           "--shutdown_timeout=1e99",
                           "--standalone=maybe",
                           "--max_restarts=-1",
                           "--tee=4",
                           "--redirects=0:",
                           "--local_ranks_filter=0,a",
                           "--signals_to_handle=SIGNOPE",
                           "--signals_to_handle=SIGKILL",
                           "--numa_binding=core",
                           "--start_method=thread",
                           "--label=maybe",
                           "--exit_code=1",
                           "--hang_timeout=0",
                           "--rdzv_backend=gossip",
                           "--rdzv_endpoint=a:b",
                           "--rdzv_conf=join_timeout",
                           "--rdzv_id=a\xff",
                           "--set=a.b",
                           "--sweep=a.b"}) {
    EXPECT_EQ(Refused({text, "x"}).code, Code::kUsage) << text;
  }
}

TEST(Options, SuggestTheMeantFlag) {
  EXPECT_THAT(Refused({"--nproc_per_noed=2", "x"}).hint, HasSubstr("--nproc_per_node"));
  EXPECT_THAT(Refused({"--xyzzy", "x"}).what, HasSubstr("--xyzzy"));
  EXPECT_EQ(Refused({"-q", "x"}).code, Code::kUsage);
}

TEST(Options, RefuseALastFlagWithoutValueNoTargetAndContradictions) {
  EXPECT_EQ(Refused({"--nnodes"}).title, "MISSING VALUE");
  EXPECT_EQ(Refused({}).title, "NO TARGET");
  EXPECT_EQ(Refused({"-m", "--no_python", "x"}).title, "FLAGS CONTRADICT");
  EXPECT_EQ(Refused({"--requeue=1", "--exit_code=torchrun", "x"}).title, "FLAGS CONTRADICT");
}

TEST(Options, AskForHelpOrVersionsWhateverElseIsThere) {
  for (const char* flag : {"-h", "--help", "--h"}) {
    const auto result = ParseOptions({"--nnodes=1", flag}, Environment());
    ASSERT_TRUE(result.has_value());
    EXPECT_THAT(std::get<TextToPrint>(*result).text, HasSubstr("Usage: ddprun"));
  }
  const auto version = ParseOptions({"--version"}, Environment());
  ASSERT_TRUE(version.has_value());
  EXPECT_TRUE(std::holds_alternative<VersionsToPrint>(*version));
}

}  // namespace
}  // namespace ddprun::launcher
