#include "launcher/cli/target.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "launcher/cli/command_line.h"
#include "launcher/cli/preload.h"

namespace ddprun::launcher {

namespace {

// The code that torchrun runs for --run_path: sys.argv is the script and its arguments.
constexpr std::string_view kRunPath =
    "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')";

Status CheckReadable(const std::string& path, Code absent, std::string_view kind) {
  const std::string noun(kind);
  if (std::filesystem::is_directory(path)) {
    return Error{.code = absent,
                 .title = "NOT A FILE",
                 .where = path,
                 .what = path + " is a folder; expected a " + noun + ".",
                 .hint = "Name the file in it.",
                 .page = "target-not-found"};
  }
  if (::access(path.c_str(), R_OK) == 0) return {};
  const bool exists = ::access(path.c_str(), F_OK) == 0;
  std::string hint = exists ? "Check its permissions." : SimilarFileHint(path);
  if (hint.empty()) hint = "Check the path; it is relative to the current folder.";
  return Error{.code = absent,
               .title = exists ? "FILE NOT READABLE" : "FILE NOT FOUND",
               .where = path,
               .what = exists ? "I may not read the " + noun + " " + path + "."
                              : "There is no " + noun + " " + path + ".",
               .hint = std::move(hint),
               .page = "target-not-found"};
}

// Returns a path that programs do not take for an option.
std::string AsPath(const std::string& file) {
  return file.starts_with('-') ? "./" + file : file;
}

void Append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Like torchrun, uses the Python of the environment in which ddprun is installed, active or not.
std::string PythonName(const Environment& env, const std::string& program_folder) {
  if (const std::string named = env.GetOr("PYTHON_EXEC", ""); !named.empty()) return named;
  const bool in_venv = ::access((program_folder + "/../pyvenv.cfg").c_str(), F_OK) == 0;
  return in_venv ? program_folder + "/python3" : "python3";
}

Result<Target> PythonTarget(const Options& options,
                            const Environment& env,
                            const std::string& program_folder) {
  Result<std::string> python = FindProgram(PythonName(env, program_folder), env);
  if (!python) {
    python.error().hint = "Install Python, or name an interpreter in PYTHON_EXEC.";
    return std::move(python).error();
  }
  Target target{
      .name = options.target, .program = *python, .argv = {*python, "-u"}, .is_python = true};
  if (options.run_path) {
    Append(target.argv, {"-c", std::string(kRunPath)});
  } else if (options.module) {
    target.argv.push_back("-m");
  }
  target.argv.push_back(options.module ? options.target : AsPath(options.target));
  if (!options.use_env.value_or(true)) target.argv.push_back("--local-rank=${local_rank}");
  Append(target.argv, options.target_args);
  return target;
}

// Returns whether torchrun would run `path` with Python although it has no suffix: a script without
// execute permission, or a folder with a __main__.py. But not a program or a script with another
// interpreter in its #! line that lacks the permission, because Python's errors would mislead.
bool IsPythonWithoutSuffix(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return std::filesystem::exists(path + "/__main__.py", ignored);
  }
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (::access(path.c_str(), X_OK) == 0) return false;
  std::string line;
  std::ifstream file(path, std::ios::binary);
  std::getline(file, line);
  if (line.starts_with("#!")) return line.find("python") != std::string::npos;
  return file.is_open() && !line.starts_with("\177ELF");
}

// Refuses words after a config here, because ddp-trainer does not know other launchers' flags.
Status CheckArgsOfConfig(const Options& options) {
  const std::vector<std::string>& args = options.target_args;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].starts_with("--set=")) continue;
    if (args[i] == "--set" && ++i < args.size()) continue;
    const std::string spelled = args[std::min(i, args.size() - 1)];
    const std::string word = spelled.substr(0, spelled.find('='));
    std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    std::ranges::replace(name, '-', '_');
    std::string hint(AnswerFor(name));
    if (std::ranges::any_of(AllFlags(), [&](const Flag& flag) { return flag.name == name; })) {
      hint = "Put it in front of " + options.target + ": there it is ddprun's.";
    } else if (hint.empty()) {
      hint = "A key's name and meaning: docs/config.md.";
    }
    return Error{.code = Code::kUsage,
                 .title = "UNKNOWN FLAG",
                 .where = word,
                 .what = "Behind a config nothing but --set KEY=VALUE may stand, not " + word + ".",
                 .hint = std::move(hint),
                 .page = "unknown-flag"};
  }
  return {};
}

// Finds what to execute for each worker, without the template of --preload.
Result<Target> FindTarget(const Options& options,
                          const Environment& env,
                          const std::string& program_folder) {
  const std::string& name = options.target;
  if (options.module) return PythonTarget(options, env, program_folder);
  if (options.run_path || (!options.no_python && name.ends_with(".py"))) {
    DDPRUN_TRY(CheckReadable(name, Code::kNotFound, "Python script"));
    return PythonTarget(options, env, program_folder);
  }
  if (!options.no_python && name.ends_with(".json")) {
    DDPRUN_TRY(CheckReadable(name, Code::kUsage, "config file"));
    DDPRUN_TRY(CheckArgsOfConfig(options));
    DDPRUN_ASSIGN(const std::string trainer, FindTrainer(env, program_folder));
    Target target{.name = name,
                  .program = trainer,
                  .argv = {trainer, AsPath(name)},
                  .template_text = trainer + " --template",
                  .is_trainer_config = true};
    for (const std::string& pair : options.overrides) Append(target.argv, {"--set", pair});
    Append(target.argv, options.target_args);
    target.template_argv = target.argv;
    target.template_argv.insert(target.template_argv.begin() + 1, "--template");
    return target;
  }
  if (!options.no_python && IsPythonWithoutSuffix(name)) {
    return PythonTarget(options, env, program_folder);
  }
  DDPRUN_ASSIGN(std::string program, FindProgram(name, env));
  Target target{.name = name, .program = std::move(program), .argv = {name}};
  Append(target.argv, options.target_args);
  return target;
}

}  // namespace

std::string ProgramFolder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

Result<std::string> FindTrainer(const Environment& env, const std::string& program_folder) {
  const std::string named = env.GetOr("DDPRUN_TRAINER", "");
  if (!named.empty()) return FindProgram(named, env);
  const std::string beside = program_folder + "/ddp-trainer";
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  Result<std::string> found = FindProgram("ddp-trainer", env);
  if (!found) {
    found.error().what = "A .json target is run by ddp-trainer, which is neither beside ddprun (" +
                         program_folder + ") nor in PATH.";
    found.error().hint = "Build it (DDPRUN_WITH_TRAINER=ON), or name it in DDPRUN_TRAINER.";
  }
  return found;
}

Result<Target> ResolveTarget(const Options& options,
                             const Environment& env,
                             const std::string& program_folder) {
  DDPRUN_ASSIGN(Target target, FindTarget(options, env, program_folder));
  if (!options.preload.empty()) DDPRUN_TRY(AddPreload(options.preload, target));
  return target;
}

}  // namespace ddprun::launcher
