#include "launcher/cli/target.h"

#include <gmock/gmock.h>

#include "launcher/cli/preload.h"
#include "tests/launcher/temp_folder.h"

namespace ddprun::launcher {
namespace {

using testing::ElementsAre;

class TargetTest : public testing::Test {
 protected:
  Result<Target> Resolve(const std::string& name, void (*change)(Options&) = nullptr) {
    Options options;
    options.target = name;
    options.target_args = {"a", "b"};
    if (change != nullptr) change(options);
    return ResolveTarget(options, env_, bin_.path());
  }

  static void TakeOverrides(Options& options) { options.target_args = {"--set", "a=b"}; }

  TempFolder bin_;
  std::string python_ = bin_.File("python3", /*executable=*/true);
  std::string trainer_ = bin_.File("ddp-trainer", /*executable=*/true);
  Environment env_{Environment::Variables{{"PATH", bin_.path()}}};
};

TEST_F(TargetTest, RunsAScriptWithUnbufferedPython) {
  const std::string script = bin_.File("train.py");
  EXPECT_THAT(Resolve(script)->argv, ElementsAre(python_, "-u", script, "a", "b"));
  EXPECT_EQ(Resolve(script)->program, python_);
}

TEST_F(TargetTest, RunsAModuleWithoutLookingForAFile) {
  EXPECT_THAT(Resolve("pkg.train", [](Options& o) { o.module = true; })->argv,
              ElementsAre(python_, "-u", "-m", "pkg.train", "a", "b"));
}

TEST_F(TargetTest, GivesAFileThatBeginsWithADashAsAPath) {
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(bin_.path());
  bin_.File("-train.py");
  bin_.File("-train.json");
  EXPECT_THAT(Resolve("-train.py")->argv, ElementsAre(python_, "-u", "./-train.py", "a", "b"));
  EXPECT_EQ(Resolve("-train.json", TakeOverrides)->argv[1], "./-train.json");
  std::filesystem::current_path(before);
}

TEST_F(TargetTest, TakesThePythonThatPythonExecNames) {
  const std::string other = bin_.File("python4", /*executable=*/true);
  env_.Set("PYTHON_EXEC", other);
  EXPECT_EQ(Resolve(bin_.File("train.py"))->program, other);
}

TEST_F(TargetTest, TakesThePythonOfTheVenvThatItIsInstalledIn) {
  Options options;
  options.target = bin_.File("train.py");
  const std::string program_folder = bin_.path() + "/venv/bin";
  std::filesystem::create_directories(program_folder);
  std::filesystem::create_symlink(python_, program_folder + "/python3");
  EXPECT_EQ(ResolveTarget(options, env_, program_folder)->program, python_);
  std::ofstream(bin_.path() + "/venv/pyvenv.cfg") << "";
  EXPECT_EQ(ResolveTarget(options, env_, program_folder)->program, program_folder + "/python3");
}

TEST_F(TargetTest, RunsAConfigThroughTheTrainerBesideDdprun) {
  const std::string config = bin_.File("train.json");
  const auto target = Resolve(config, TakeOverrides);
  EXPECT_TRUE(target->is_trainer_config);
  EXPECT_THAT(target->argv, ElementsAre(trainer_, config, "--set", "a=b"));
  EXPECT_THAT(target->template_argv, ElementsAre(trainer_, "--template", config, "--set", "a=b"));
  EXPECT_EQ(Resolve(config).error().title, "UNKNOWN FLAG");
}

TEST_F(TargetTest, HasATemplateForAScriptIfModulesArePreloaded) {
  const std::string script = bin_.File("train.py");
  const auto preload = [](Options& o) { o.preload = {"torch", "a.b"}; };
  const auto target = Resolve(script, preload);
  EXPECT_THAT(target->argv, ElementsAre(python_, "-u", script, "a", "b"));
  EXPECT_THAT(target->template_argv, ElementsAre(python_, "-u", "-c", kPythonTemplate, "torch,a.b",
                                                 python_, "-u", script, "a", "b"));
  bin_.File("program", /*executable=*/true);
  EXPECT_EQ(Resolve("program", preload).error().title, "FLAGS CONTRADICT");
  EXPECT_THAT(Resolve(script)->template_argv, testing::IsEmpty());
}

TEST(ReadModules, TakesNamesBetweenCommas) {
  std::vector<std::string> names;
  EXPECT_TRUE(ReadModules("torch,a.b_2", names));
  EXPECT_THAT(names, ElementsAre("torch", "a.b_2"));
  for (const char* wrong : {"", "torch,", ".a", "a.", "2a", "a b", "-a", "a/b"}) {
    EXPECT_FALSE(ReadModules(wrong, names)) << wrong;
  }
  EXPECT_EQ(names.size(), 2);
}

TEST_F(TargetTest, RunsAnythingExecutableAsItIs) {
  const std::string program = bin_.File("program", /*executable=*/true);
  EXPECT_THAT(Resolve("program")->argv, ElementsAre("program", "a", "b"));
  EXPECT_EQ(Resolve("program")->program, program);
  const std::string script = bin_.File("tool.py", /*executable=*/true);
  EXPECT_THAT(Resolve(script, [](Options& o) { o.no_python = true; })->argv,
              ElementsAre(script, "a", "b"));
}

TEST_F(TargetTest, RunsWithPythonWhatTorchrunRunsWithoutASuffix) {
  const std::string script = bin_.path() + "/train";
  std::ofstream(script) << "import os\n";
  EXPECT_THAT(Resolve(script)->argv, ElementsAre(python_, "-u", script, "a", "b"));
  std::ofstream(script) << "#!/usr/bin/env python3\nimport os\n";
  EXPECT_EQ(Resolve(script)->program, python_);
  std::ofstream(script) << "\177ELF\n";
  EXPECT_EQ(Resolve(script).error().code, Code::kNotExecutable);
  const std::string package = bin_.path() + "/package";
  std::filesystem::create_directory(package);
  EXPECT_EQ(Resolve(package).error().code, Code::kNotExecutable);
  std::ofstream(package + "/__main__.py") << "import os\n";
  EXPECT_THAT(Resolve(package)->argv, ElementsAre(python_, "-u", package, "a", "b"));
}

TEST_F(TargetTest, TellsAMissingConfigFromAMissingProgram) {
  EXPECT_EQ(Resolve("absent.json").error().code, Code::kUsage);
  EXPECT_EQ(Resolve("absent.py").error().code, Code::kNotFound);
  EXPECT_EQ(Resolve("absent").error().code, Code::kNotFound);
  EXPECT_EQ(Resolve(bin_.File("plain")).error().code, Code::kNotExecutable);
}

}  // namespace
}  // namespace ddprun::launcher
