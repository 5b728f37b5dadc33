#include "launcher/doctor/doctor.h"

#include <gmock/gmock.h>

#include "launcher/doctor/checks.h"

namespace ddprun::launcher {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

testing::Matcher<Finding> Is(const char* name, Verdict verdict, const char* what) {
  return AllOf(Field(&Finding::name, name), Field(&Finding::verdict, verdict),
               Field(&Finding::what, HasSubstr(what)));
}

MachineFacts GoodMachine() {
  return {.cores = 8,
          .processors = 8,
          .numa_nodes = 1,
          .memory = MemoryLimit{.bytes = 32 * kGiB},
          .free_memory = 30 * kGiB,
          .shared_memory = 16 * kGiB,
          .open_files = {.soft = 1024, .hard = 4096}};
}

TEST(Doctor, FindsNothingOnAGoodMachine) {
  for (const Finding& finding : CheckMachine(GoodMachine())) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.name << ": " << finding.what;
    EXPECT_THAT(finding.remedy, IsEmpty());
  }
}

TEST(Doctor, NamesWhatIsLittleAndTheRemedy) {
  MachineFacts facts = GoodMachine();
  facts.cores = 2;
  facts.shared_memory = 64 << 20;
  facts.open_files = {.soft = 256, .hard = 256};
  facts.processes = {.soft = 100, .hard = -1};
  facts.memory = MemoryLimit{.bytes = kGiB / 2, .of_cgroup = true};
  const std::vector<Finding> found = CheckMachine(facts);
  EXPECT_THAT(found, Contains(Is("cores", Verdict::kNote, "2 of 8 processors")));
  EXPECT_THAT(found, Contains(Is("memory", Verdict::kNote, "512 MiB, the limit of the cgroup")));
  EXPECT_THAT(found, Contains(Is("/dev/shm", Verdict::kNote, "64 MiB")));
  EXPECT_THAT(found, Contains(AllOf(Is("open files", Verdict::kNote, "256"),
                                    Field(&Finding::remedy, HasSubstr("root must allow")))));
  EXPECT_THAT(found, Contains(AllOf(Is("processes", Verdict::kNote, "100"),
                                    Field(&Finding::remedy, "ulimit -u 1024"))));
  EXPECT_TRUE(NothingMissing(found)) << "training works";
}

TEST(Doctor, MissesOnlyWhatWasAskedFor) {
  NetworkFacts network{.host = "node7",
                       .ucx_error = "libucp.so.0: not found",
                       .interfaces = {{.name = "mlx5_0", .infiniband = true}}};
  EXPECT_TRUE(NothingMissing(CheckNetwork(network, {}, {})));
  const std::vector<Finding> found = CheckNetwork(network, {.nodes = true}, {});
  EXPECT_THAT(found, Contains(AllOf(Is("UCX", Verdict::kMissing, "libucp.so.0: not found"),
                                    Field(&Finding::remedy, "apt-get install libucx0"))));
  network.interfaces = {{.name = "eth0"}};
  EXPECT_THAT(CheckNetwork(network, {.nodes = true}, {}),
              Contains(Is("UCX", Verdict::kOk, "nor needed over eth0 (TCP)")));
  EXPECT_THAT(found, Contains(Is("host name", Verdict::kMissing, "node7 has no address")));

  const Result<NvidiaDriver> none =
      Error{.title = {}, .where = {}, .what = "No driver.", .hint = "Install it.", .page = {}};
  const TrainerFacts trainer;
  EXPECT_TRUE(NothingMissing(CheckGpus(none, {}, trainer, {})));
  EXPECT_THAT(CheckGpus(none, {}, trainer, {.gpu = true}),
              Contains(Is("GPUs", Verdict::kMissing, "No driver.")));
}

TEST(Doctor, KnowsDevicesForSeveralNodes) {
  const NetworkFacts network{
      .host = "node7",
      .addresses = {"10.0.0.7"},
      .ucx = "1.18.0",
      .interfaces = {{.name = "eth0", .megabits = 10000}, {.name = "mlx5_0", .infiniband = true}},
      .busy_ports = {29500}};
  const std::vector<Finding> found = CheckNetwork(network, {.nodes = true}, {.soft = 8 << 20});
  EXPECT_THAT(found, Contains(Is("UCX", Verdict::kNote,
                                 "1.18.0, over eth0 (TCP, 10000 Mbit/s), mlx5_0 (RDMA); RDMA "
                                 "needs locked memory, of which a process may have 8 MiB")));
  EXPECT_THAT(found, Contains(Is("host name", Verdict::kOk, "node7 is 10.0.0.7")));
  EXPECT_THAT(found, Contains(Is("ports", Verdict::kNote, "29500 taken")));
  EXPECT_THAT(CheckNetwork(network, {}, {}), Contains(Is("UCX", Verdict::kOk, "1.18.0")));
}

TEST(Doctor, ReadsTheLoadersList) {
  const auto list = ParseLoaderList(
      "\tlinux-vdso.so.1 (0x00007ffd1)\n"
      "\tlibtorch_cpu.so => /t/lib/libtorch_cpu.so (0x00007f1)\n"
      "\tlibcudnn.so.9 => not found\n"
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f2)\n");
  ASSERT_EQ(list.size(), 3);
  EXPECT_EQ(list[0].path, "/t/lib/libtorch_cpu.so");
  EXPECT_EQ(list[1].name, "libcudnn.so.9");
  EXPECT_EQ(list[1].path, "");
  EXPECT_EQ(list[2].path, "/lib64/ld-linux-x86-64.so.2");
}

TEST(Doctor, SaysWhatTheTrainerDoesNotFind) {
  TrainerFacts facts{.path = "/d/ddp-trainer", .libraries = {{"libtorch_cpu.so", ""}}};
  const std::vector<Finding> found = CheckTrainer(facts);
  EXPECT_THAT(found, Contains(Is("LibTorch", Verdict::kMissing, "not found: libtorch_cpu.so")));
  facts.libraries = {{"libtorch_cpu.so", "/t/lib/libtorch_cpu.so"}};
  facts.output = "Illegal instruction";
  EXPECT_THAT(CheckTrainer(facts),
              Contains(Is("LibTorch", Verdict::kMissing, "Illegal instruction")));
  facts.versions = "LibTorch 2.11.0";
  EXPECT_THAT(CheckTrainer(facts),
              Contains(Is("LibTorch", Verdict::kOk, "LibTorch 2.11.0, in /t/lib")));
  facts = {.not_found = Error{}};
  EXPECT_THAT(CheckTrainer(facts), Contains(Is("ddp-trainer", Verdict::kMissing, "not found")));
}

TEST(Doctor, ComparesTheDriverWithTheModule) {
  const Result<NvidiaDriver> driver =
      NvidiaDriver{.version = "550.54",
                   .cuda = 12040,
                   .gpus = {{.name = "A", .uuid = "GPU-1", .bus_id = {}, .memory_bytes = 80 * kGiB},
                            {.name = "B",
                             .uuid = "GPU-2",
                             .bus_id = {},
                             .memory_bytes = 80 * kGiB,
                             .celsius = 91,
                             .watts = 700,
                             .busy_percent = 100}},
                   .without_peer_access = {{0, 1}}};
  TrainerFacts trainer{.module = "/d/libddprun_cuda.so", .cuda = 13000, .nccl = 22809};
  std::vector<Finding> found = CheckGpus(driver, "1", trainer, {.gpu = true});
  EXPECT_THAT(found, Contains(Is("driver", Verdict::kOk, "1 of 2 GPUs visible")));
  EXPECT_THAT(found, Contains(Is("GPU 0", Verdict::kOk, "A, 80 GiB (0 bytes in use)")));
  EXPECT_THAT(found, Contains(AllOf(Is("GPU 1", Verdict::kNote, "91 C, 700 W, 100 % busy"),
                                    Field(&Finding::remedy, HasSubstr("hot")))));
  EXPECT_THAT(found, Contains(Is("peer access", Verdict::kNote, "0 and 1")));
  EXPECT_THAT(found, Contains(Is("CUDA module", Verdict::kMissing,
                                 "needs CUDA 13.0, but the driver serves up to 12.4")));
  EXPECT_THAT(CheckGpus(driver, "", trainer, {.gpu = true}),
              Contains(Is("driver", Verdict::kMissing, "0 of 2 GPUs visible")));

  trainer.cuda = 12080;  // within CUDA 12 an older driver serves, too
  found = CheckGpus(driver, {}, trainer, {});
  EXPECT_THAT(found, Contains(Is("CUDA module", Verdict::kOk, "CUDA 12.8, NCCL 2.28.9")));
  trainer.module_libraries = {{"libcudnn.so.9", ""}};
  EXPECT_THAT(CheckGpus(driver, {}, trainer, {}),
              Contains(Is("CUDA module", Verdict::kNote, "not found: libcudnn.so.9")));
  trainer.module = "";
  EXPECT_THAT(CheckGpus(driver, {}, trainer, {.gpu = true}),
              Contains(Is("CUDA module", Verdict::kMissing, "not there")));
}

TEST(Doctor, ShowsOneLineEachAndItsRemedy) {
  const std::vector<Finding> findings = {
      {.name = "cores", .what = "2 of 2"},
      {.name = "UCX", .verdict = Verdict::kMissing, .what = "not there", .remedy = "install it"}};
  EXPECT_EQ(DoctorText(findings, /*color=*/false),
            "ok       cores          2 of 2\n"
            "MISSING  UCX            not there\n"
            "                        -> install it\n");
  const auto json = nlohmann::json::parse(DoctorJson(findings, "node7"));
  EXPECT_EQ(json["host"], "node7");
  EXPECT_EQ(json["nothing_missing"], false);
  EXPECT_EQ(json["checks"][1]["verdict"], "missing");
  EXPECT_EQ(json["checks"][1]["remedy"], "install it");
}

TEST(Doctor, TestsNotThisMachineInsteadOfNodes) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"nonsense"},
                                             {"--hostfile=/nosuch"},
                                             {"--nnodes=2", "--hostfile=/nosuch"},
                                             {"--nnodes=1"}}) {
    std::vector<std::string> args = words;
    args.emplace_back("--nodes");
    const Result<int> code = RunDoctor(args, Environment());
    ASSERT_FALSE(code.has_value()) << words.front();
    EXPECT_EQ(code.error().code, Code::kUsage);
    EXPECT_EQ(code.error().where, words.front());
    EXPECT_THAT(code.error().hint, HasSubstr("on each of N hosts\nddprun doctor --nodes"));
  }
}

}  // namespace
}  // namespace ddprun::launcher
