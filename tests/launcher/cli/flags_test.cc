#include <gmock/gmock.h>
#include <signal.h>

#include "launcher/cli/help_text.h"
#include "launcher/cli/options.h"
#include "tests/launcher/cli/parsed_options.h"

namespace ddprun::launcher {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Flags, HaveUniqueNamesAndAreReadOrPrint) {
  std::set<std::string_view> names;
  for (const Flag& flag : AllFlags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_FALSE(flag.help.ends_with('.')) << flag.name;
    EXPECT_EQ(flag.completion == Completion::kChoices, !flag.choices.empty()) << flag.name;
    EXPECT_TRUE(flag.read != nullptr || flag.variable.empty()) << flag.name;
  }
}

TEST(Flags, FitTheHelpInto80Columns) {
  std::stringstream lines(HelpText(AllFlags()));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Flags, TakeShortNamesWithTheirValueAttachedOrBehind) {
  const Options options = Parsed({"-mr3", "-t", "1", "-np", "4", "x"});
  EXPECT_TRUE(options.module);
  EXPECT_TRUE(options.redirects.Of(7).out && options.redirects.Of(7).err);
  EXPECT_TRUE(options.tee.Of(0).out && !options.tee.Of(0).err);
  EXPECT_EQ(options.nproc_per_node, "4");
  EXPECT_EQ(Parsed({"-n=2", "x"}).nproc_per_node, "2");
  EXPECT_EQ(Parsed({"-ppn", "3", "x"}).nproc_per_node, "3");
}

TEST(Flags, NameStreamsPerLocalRankWithAnyNumberOfDigits) {
  const StreamsPerRank streams = Parsed({"-r", "0:1,10:3,2:0", "x"}).redirects;
  EXPECT_TRUE(streams.Of(0).out && !streams.Of(0).err);
  EXPECT_TRUE(streams.Of(10).out && streams.Of(10).err);
  EXPECT_FALSE(streams.Of(1).out || streams.Of(2).err);
}

TEST(Flags, SplitFiltersAtSingleCommas) {
  const Options options = Parsed({"--duplicate_stdout_filters=a,,b,c", "x"});
  EXPECT_THAT(options.duplicate_stdout_filters, ElementsAre("a,b", "c"));
  EXPECT_THAT(Parsed({"--duplicate_stderr_filters=", "x"}).duplicate_stderr_filters, IsEmpty());
  EXPECT_THAT(Parsed({"--local_ranks_filter=2, 0", "x"}).local_ranks_filter, ElementsAre(0, 2));
}

TEST(Flags, NameSignalsWithOrWithoutSig) {
  const Options options = Parsed({"--signals_to_handle=SIGTERM,USR1", "x"});
  EXPECT_THAT(options.signals_to_handle, ElementsAre(SIGTERM, SIGUSR1));
  EXPECT_EQ(options.signals_text, "SIGTERM,USR1");
}

std::string Endpoint(const Args& args) {
  return ToString(Parsed(args).rdzv.endpoint);
}

TEST(Flags, GiveAStaticJobTheEndpointInsteadOfMasterAddrAndPort) {
  EXPECT_EQ(Endpoint({"--nnodes=2", "--rdzv_endpoint=[::1]:1234", "x"}), "[::1]:1234");
  EXPECT_EQ(Endpoint({"--rdzv_endpoint=host", "--master_port=5", "x"}), "host:5");
  EXPECT_EQ(Endpoint({"--nnodes=2", "--master_addr=host", "x"}), "host:29500");
  EXPECT_EQ(Endpoint({"--nnodes=2", "--rdzv_endpoint=host:0", "x"}), "host:29500");
}

TEST(Flags, TellTheNodesOfC10dWhereTheyMeet) {
  const auto meet = [](const std::string& endpoint) {
    const Options options = Parsed({"--rdzv_backend=c10d", "--rdzv_endpoint=" + endpoint, "x"});
    return std::string(options.backend->name) + " " + ToString(options.rdzv.endpoint);
  };
  EXPECT_EQ(meet("10.0.0.1"), "c10d 10.0.0.1:29400");
  EXPECT_EQ(meet("10.0.0.1:1"), "c10d 10.0.0.1:1");
  EXPECT_EQ(meet("[fe80::1]:1"), "c10d [fe80::1]:1");
  EXPECT_EQ(meet("::1"), "c10d [::1]:29400");
  EXPECT_EQ(Endpoint({"--nnodes=2", "--rdzv_backend=c10d", "x"}), "localhost:29400");
  // One node that nobody can find needs no coordinator.
  EXPECT_EQ(meet("localhost:0"), "static 127.0.0.1:0");
  EXPECT_EQ(meet(""), "static 127.0.0.1:0");
}

TEST(Flags, ReadRdzvConf) {
  const auto with = [](const std::string& conf, const char* backend = "c10d") {
    return Parsed({std::string("--rdzv_backend=") + backend, "--rdzv_conf=" + conf, "x"}).rdzv;
  };
  const auto rdzv = with(
      " join_timeout=1.5 , is_host=Yes,timeout=9,last_call_timeout=0.5,close_timeout=1,"
      "keep_alive_interval=0.2,keep_alive_max_attempt=2,read_timeout=60");
  EXPECT_EQ(rdzv.rules.join_timeout, milliseconds(1500));
  EXPECT_EQ(rdzv.is_host, true);
  EXPECT_EQ(rdzv.rules.last_call_timeout, milliseconds(500));
  EXPECT_EQ(rdzv.close_timeout, milliseconds(1000));
  EXPECT_EQ(rdzv.keep_alive.interval, milliseconds(200));
  EXPECT_EQ(rdzv.keep_alive.max_attempts, 2);
  EXPECT_EQ(with("timeout=9").rules.join_timeout, milliseconds(9000));
  EXPECT_EQ(with("is_host=0").rules.join_timeout, milliseconds(600'000));
  EXPECT_EQ(with("is_host=0", "static").rules.join_timeout, milliseconds(900'000));
  EXPECT_EQ(with("is_host=0").is_host, false);
}

TEST(Flags, CheckTheKeysOfRdzvConf) {
  EXPECT_THAT(Refused({"--rdzv_conf=join_timout=5", "x"}).hint, HasSubstr("join_timeout"));
  for (const std::string pair :
       {"join_timeout=soon", "join_timeout=0", "last_call_timeout=-1", "keep_alive_max_attempt=0",
        "keep_alive_interval=1s", "is_host=maybe", "close_timeout=nan", "store_type=file"}) {
    EXPECT_THAT(Refused({"--rdzv_conf=" + pair, "x"}).what,
                HasSubstr('"' + pair.substr(pair.find('=') + 1) + '"'));
  }
  const Options etcd = Parsed({"--rdzv_conf=protocol=https", "x"});
  EXPECT_THAT(etcd.notes, ElementsAre(HasSubstr("protocol")));
}

TEST(Flags, RefuseEtcdWithAWayOut) {
  for (const char* name : {"etcd", "etcd-v2"}) {
    const Error error = Refused({"--rdzv_backend", name, "x"});
    EXPECT_EQ(error.title, "NO ETCD");
    EXPECT_THAT(error.hint, HasSubstr("c10d"));
  }
}

TEST(Flags, WithoutEffectSaySoOnce) {
  const Environment env(Environment::Variables{{"PET_MONITOR_INTERVAL", "5"}});
  const Options options = Parsed({"--monitor_interval=3", "--start_method=fork", "x"}, env);
  EXPECT_THAT(options.notes, ElementsAre(HasSubstr("--monitor_interval has no effect"),
                                         HasSubstr("--start_method has no effect")));
}

TEST(Flags, ReadEveryTimeInFractionsOfSeconds) {
  const Options options =
      Parsed({"--hang_timeout=1.5", "--exit_barrier_timeout=0", "--shutdown_timeout=2", "x"});
  EXPECT_EQ(options.hang_timeout, milliseconds(1500));
  EXPECT_EQ(options.exit_barrier_timeout, milliseconds(0));
  EXPECT_EQ(options.shutdown_timeout, milliseconds(2000));
}

TEST(Flags, OfTrainerConfigsRepeatAndAreRefusedForOtherTargets) {
  const Options options =
      Parsed({"--set", "a.b=1", "--set=c.d=[1, 2]", "--sweep=e.f=1,2", "train.json"});
  EXPECT_THAT(options.overrides, ElementsAre("a.b=1", "c.d=[1, 2]"));
  EXPECT_THAT(options.sweep, ElementsAre("e.f=1,2"));
  EXPECT_EQ(Refused({"--set=a.b=1", "train.py"}).title, "NO TRAINER CONFIG");
  EXPECT_EQ(Refused({"--sweep=a.b=1", "--no_python", "train.json"}).title, "NO TRAINER CONFIG");
}

TEST(Flags, PassTheLocalRankAsAnArgumentToPythonOnly) {
  EXPECT_EQ(Parsed({"--use_env", "x"}).use_env, true);
  EXPECT_EQ(Parsed({"--use_env=0", "train.py"}).use_env, false);
  EXPECT_EQ(Refused({"--use_env=0", "program"}).title, "FLAGS CONTRADICT");
  EXPECT_EQ(Refused({"--use_env=0", "--no_python", "train.py"}).title, "FLAGS CONTRADICT");
}

TEST(Flags, ReadSwitchesOfTheEnvironmentAsNumbers) {
  const Environment env(Environment::Variables{{"PET_MODULE", "2"}, {"PET_STANDALONE", "0"}});
  EXPECT_TRUE(Parsed({"x"}, env).module);
  EXPECT_FALSE(Parsed({"x"}, env).standalone);
}

}  // namespace
}  // namespace ddprun::launcher
