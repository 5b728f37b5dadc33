#include <gtest/gtest.h>

#include "launcher/submit/job_script.h"
#include "launcher/submit/submit_words.h"

namespace ddprun::launcher {
namespace {

using Words = std::vector<std::string>;

SubmitWords Split(const Words& args) {
  auto words = SplitSubmit(args);
  EXPECT_TRUE(words.has_value()) << Render(words.error());
  return words.has_value() ? *words : SubmitWords();
}

std::string HintFor(const Words& args) {
  const auto words = SplitSubmit(args);
  EXPECT_FALSE(words.has_value()) << args.front();
  return words.has_value() ? "" : words.error().hint;
}

bool HasLine(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(SubmitWords, GoToTheProgramThatKnowsThem) {
  const SubmitWords words =
      Split({"--nodes=2", "-p", "gpu", "-A", "me", "-t", "90m", "--nproc-per-node", "4",
             "--gpus-per-node=4", "--exclusive", "--nice=5", "--hang_timeout=60", "--no_python",
             "--follow", "t.py", "--nodes=9"});
  EXPECT_EQ(words.sbatch,
            (Words{"--nodes=2", "--partition=gpu", "--account=me", "--time=0-01:30:00",
                   "--gpus-per-node=4", "--exclusive", "--nice=5"}));
  EXPECT_EQ(words.ddprun, (Words{"--nproc_per_node=4", "--hang_timeout=60", "--no_python"}));
  EXPECT_EQ(words.target, (Words{"t.py", "--nodes=9"}));
  EXPECT_TRUE(words.follow);
  EXPECT_FALSE(words.dry_run || words.outlives_nodes || words.help);
}

TEST(SubmitWords, OfTheNumberOfNodesGoToSbatch) {
  EXPECT_EQ(Split({"--nnodes=3", "x"}).sbatch, Words{"--nodes=3"});
  EXPECT_EQ(Split({"--nnodes=3", "x"}).ddprun, Words{});
  const SubmitWords elastic = Split({"--nnodes=1:2", "x"});
  EXPECT_EQ(elastic.sbatch, Words{"--nodes=2"});
  EXPECT_EQ(elastic.ddprun, Words{"--nnodes=1:2"});
  EXPECT_TRUE(elastic.outlives_nodes);
  HintFor({"--nodes=2", "--nnodes=2", "x"});
}

TEST(SubmitWords, OfSparesAddTheirNodes) {
  const SubmitWords counted = Split({"--spares=2", "--nnodes=3", "x"});
  EXPECT_EQ(counted.sbatch, Words{"--nodes=5"});
  EXPECT_EQ(counted.ddprun, Words{"--spares=2"});
  EXPECT_TRUE(counted.outlives_nodes);
  EXPECT_EQ(Split({"--nodes=5", "--spares=2", "x"}).sbatch, Words{"--nodes=5"});
  EXPECT_EQ(Split({"--nodes=3-5", "--spares=2", "x"}).sbatch, Words{"--nodes=3-5"});
  EXPECT_NE(HintFor({"--nodes=3", "--spares=2", "x"}).find("--nodes=4 or more"), std::string::npos);
  HintFor({"--spares=1", "x"});
}

TEST(SubmitWords, OfTasksAndWorkersHaveToFit) {
  HintFor({"--ntasks-per-node=4", "--nproc_per_node=2", "x"});
  HintFor({"--nodes=2", "--ntasks=8", "--nproc_per_node=2", "x"});
  HintFor({"--ntasks-per-node=2", "--nnodes=1:2", "x"});
  for (const Words& words :
       {Words{"--ntasks-per-node=4", "--nproc_per_node=4", "x"}, Words{"--ntasks-per-node=4", "x"},
        Words{"--ntasks-per-node=1", "--nproc_per_node=4", "x"},
        Words{"--nodes=2", "--ntasks=2", "--nproc_per_node=4", "x"},
        Words{"--ntasks=2", "--nproc_per_node=4", "x"}}) {  // perhaps on two nodes
    Split(words);
  }
}

TEST(SubmitWords, ThatBothProgramsReadDifferentlyAreRefused) {
  EXPECT_NE(HintFor({"-n", "4", "x"}).find("--ntasks"), std::string::npos);
  EXPECT_NE(HintFor({"-np", "4", "x"}).find("--nproc_per_node"), std::string::npos);
  EXPECT_NE(HintFor({"-m", "pkg.train"}).find("--module"), std::string::npos);
  EXPECT_NE(HintFor({"--nod=2", "x"}).find("--nodes"), std::string::npos);
  for (const char* const word : {"--wrap=x", "--node_rank=1", "--wait", "-D", "--version", "-r3"}) {
    HintFor({word, "x"});
  }
  EXPECT_FALSE(SplitSubmit({"--comment=a\n#SBATCH --uid=0", "x"}).has_value());
}

TEST(SlurmTime, IsDaysHoursMinutesSeconds) {
  EXPECT_EQ(SlurmTime("4h"), "0-04:00:00");
  EXPECT_EQ(SlurmTime("90m"), "0-01:30:00");
  EXPECT_EQ(SlurmTime("1d12h"), "1-12:00:00");
  EXPECT_EQ(SlurmTime("36h5s"), "1-12:00:05");
  for (const char* const own :
       {"90", "1:30:00", "1-12", "1-0:0:0", "4x", "m", "h4", "4m4h", "", "4h3"}) {
    EXPECT_EQ(SlurmTime(own), own);
  }
}

TEST(JobScript, OfAConfigSavesBeforeTheLimitAndMayBeRequeued) {
  const std::string text = JobScript(Split({"--cpus-per-task=16", "dir/a b.json"}), "ddprun", true,
                                     {"a b.json", "x\ny"});
  EXPECT_TRUE(text.starts_with("#!/bin/bash\n# Written by: ddprun submit 'a b.json' 'x y'\n"))
      << text;
  for (const char* const line :
       {"#SBATCH \"--job-name=a b\"", "#SBATCH --signal=USR1@90", "#SBATCH --requeue",
        "#SBATCH --open-mode=append", "#SBATCH --output=runs/slurm/a_b-%j.out"}) {
    EXPECT_TRUE(HasLine(text, line)) << line << "\n" << text;
  }
  EXPECT_TRUE(HasLine(text,
                      "srun --kill-on-bad-exit=1 --export=ALL "
                      "--cpus-per-task=\"$SLURM_CPUS_PER_TASK\" \\"))
      << text;
  EXPECT_TRUE(text.ends_with(" 'dir/a b.json'\n")) << text;
}

TEST(JobScript, HasNoRequeueWithTheExitCodesOfTorchrun) {
  const std::string text = JobScript(Split({"--exit_code=torchrun", "t.json"}), "ddprun", true, {});
  EXPECT_EQ(text.find("--requeue=3"), std::string::npos) << text;
}

TEST(JobScript, LeavesTheUsersOptionsAlone) {
  const std::string text = JobScript(Split({"--no-requeue", "--signal=B:TERM@5", "-o", "x.out",
                                            "-J", "j", "-N2", "--ntasks=4", "t.json"}),
                                     "ddprun", true, {});
  for (const char* const word :
       {"USR1", " --requeue", "ntasks-per-node", "runs/slurm", "job-name=t"}) {
    EXPECT_EQ(text.find(word), std::string::npos) << word << "\n" << text;
  }
}

TEST(JobScript, OfAnElasticJobLivesOnWithFewerNodes) {
  const std::string text = JobScript(Split({"--nnodes=1:2", "t.py"}), "ddprun", false, {});
  EXPECT_TRUE(HasLine(text, "#SBATCH --no-kill")) << text;
  EXPECT_TRUE(HasLine(text, "srun --kill-on-bad-exit=0 --no-kill --export=ALL \\")) << text;
  EXPECT_NE(text.find(" --requeue=3 --nnodes=1:2 t.py\n"), std::string::npos) << text;
  // A Python script that has no handler is killed by SIGUSR1.
  EXPECT_EQ(text.find("--signal"), std::string::npos) << text;
}

}  // namespace
}  // namespace ddprun::launcher
