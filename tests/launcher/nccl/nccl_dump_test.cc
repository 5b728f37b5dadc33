#include "launcher/nccl/nccl_dump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/base/pickled.h"
#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

std::string Frame(const std::string& name, const std::string& file, int line) {
  return PDict({{"name", PText(name)}, {"filename", PText(file)}, {"line", PInt(line)}});
}

// One collective that is not complete, and one message that is.
std::string SmallDump() {
  const std::string torch = "/venv/lib/python3.11/site-packages/torch/distributed/a.py";
  const std::string frames =
      PList({Frame("all_reduce", torch, 3068), Frame("step", "/home/me/t.py", 8),
             Frame("run", torch, 9), Frame("<module>", "/home/me/t.py", 14)});
  const std::string group = PList({PText("0"), PText("default_pg")});
  const std::string sizes = PList({PList({PInt(4), PInt(8)}), PList({PInt(2)}), PList({})});
  const std::string types = PList({PText("Float"), PText("Float"), PText("Float")});
  const std::string collective = PDict({{"frames", frames},
                                        {"process_group", group},
                                        {"collective_seq_id", PInt(2)},
                                        {"p2p_seq_id", PInt(7)},
                                        {"is_p2p", PBool(false)},
                                        {"profiling_name", PText("nccl:all_\x1b[31mreduce")},
                                        {"input_sizes", sizes},
                                        {"input_dtypes", types},
                                        {"state", PText("scheduled")}});
  const std::string message = PDict({{"process_group", group},
                                     {"collective_seq_id", PInt(2)},
                                     {"p2p_seq_id", PInt(7)},
                                     {"is_p2p", PBool(true)},
                                     {"profiling_name", PText("nccl:recv 0<-1")},
                                     {"state", PText("completed")}});
  const std::string config = PDict(
      {{"0",
        PDict(
            {{"name", PText("0")}, {"desc", PText("default_pg")}, {"ranks", PText("[0, 1, 12]")}})},
       {"5",
        PDict({{"name", PText("5")}, {"desc", PText("undefined")}, {"ranks", PText("[12, 1]")}})}});
  return Pickled(PDict({{"version", PText("2.10")},
                        {"pg_config", config},
                        {"entries", PList({collective, message})}}));
}

TEST(NcclDump, HasGroupsAndCalls) {
  const Result<NcclDump> dump = ParseNcclDump(SmallDump(), 12);
  ASSERT_TRUE(dump.has_value()) << dump.error().what;
  EXPECT_EQ(dump->rank, 12);
  ASSERT_EQ(dump->groups.size(), 2U);
  EXPECT_EQ(dump->groups[0].name, "0");
  EXPECT_EQ(dump->groups[0].description, "default_pg");
  EXPECT_EQ(dump->groups[0].ranks, (std::vector<int>{0, 1, 12}));
  EXPECT_EQ(dump->groups[1].description, "");
  EXPECT_EQ(dump->groups[1].ranks, (std::vector<int>{1, 12}));
  ASSERT_EQ(dump->calls.size(), 2U);
  const NcclCall& collective = dump->calls[0];
  EXPECT_EQ(collective.group, "0");
  EXPECT_EQ(collective.number, 2);
  EXPECT_EQ(collective.operation, "all_reduce") << "nothing that a terminal would obey";
  EXPECT_EQ(collective.input, "[4, 8] of Float and [2] of Float and 1 more");
  EXPECT_EQ(collective.elements, 35);
  EXPECT_FALSE(collective.is_message);
  EXPECT_FALSE(collective.is_complete);
  EXPECT_EQ(collective.caller, "step at /home/me/t.py:8, from <module> at /home/me/t.py:14");
  const NcclCall& message = dump->calls[1];
  EXPECT_EQ(message.number, 7);
  EXPECT_EQ(message.operation, "recv 0<-1");
  EXPECT_TRUE(message.is_message);
  EXPECT_TRUE(message.is_complete);
  EXPECT_EQ(message.caller, "");
}

TEST(NcclDump, OtherPicklesAreNone) {
  EXPECT_EQ(ParseNcclDump(Pickled(PInt(3)), 0).error().what, "it lacks pg_config or entries");
  EXPECT_EQ(ParseNcclDump("", 0).error().what, "it ends in the middle");
  EXPECT_EQ(ParseNcclDump(std::string((32U << 20) + 1, 'N'), 0).error().what, "it is too long");
}

TEST(NcclDump, WrongTypesAreEmpty) {
  const Result<NcclDump> dump =
      ParseNcclDump(Pickled(PDict({{"pg_config", PDict({{"0", PInt(1)}})},
                                   {"entries", PList({PInt(1), PDict({{"process_group", PText("x")},
                                                                      {"input_sizes", PInt(1)},
                                                                      {"frames", PDict({})}})})}})),
                    0);
  ASSERT_TRUE(dump.has_value());
  EXPECT_EQ(dump->groups[0].name, "");
  EXPECT_EQ(dump->calls.size(), 2U);
}

TEST(NcclDumps, AreReadFromAFolder) {
  const TempFolder folder;
  const std::string prefix = NcclDumpPrefix(folder.path());
  std::ofstream(prefix + "10") << SmallDump();
  std::ofstream(prefix + "2") << SmallDump();
  std::ofstream(prefix + "3") << SmallDump().substr(0, 50);
  std::ofstream(prefix + "x") << "another file";
  ASSERT_EQ(::mkfifo((prefix + "4").c_str(), 0600), 0) << "does not wait for a writer";
  const NcclDumps read = ReadNcclDumps(folder.path());
  ASSERT_EQ(read.dumps.size(), 2U);
  EXPECT_EQ(read.dumps[0].rank, 2);
  EXPECT_EQ(read.dumps[1].rank, 10);
  EXPECT_EQ(read.unread,
            (std::vector<std::string>{prefix + "3 is no whole dump: it ends in the middle",
                                      prefix + "4 is no whole dump: it ends in the middle"}));
  EXPECT_TRUE(ReadNcclDumps(folder.path() + "/absent").dumps.empty());
}

TEST(NcclDumps, AreAskedForThroughPipesThatSomebodyReads) {
  const TempFolder folder;
  const std::string prefix = NcclPipePrefix(folder.path());
  ASSERT_EQ(::mkfifo((prefix + "0.pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((prefix + "1.pipe").c_str(), 0600), 0);
  const int reader = ::open((prefix + "1.pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_EQ(AskForNcclDumps(folder.path(), {0, 1, 2}), std::vector<int>{1});
  char byte = 0;
  EXPECT_EQ(::read(reader, &byte, 1), 1);
  ::close(reader);
}

}  // namespace
}  // namespace ddprun::launcher
