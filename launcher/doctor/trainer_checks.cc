#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>

#include "base/text.h"
#include "launcher/cli/target.h"
#include "launcher/doctor/checks.h"
#include "launcher/process/program_output.h"

namespace ddprun::launcher {

namespace {

constexpr std::chrono::seconds kStartPatience{30};  // the first start reads 400 MB from disk

// Asks the loader what it would load, as ldd does. Does not run the program.
std::vector<LoadedLibrary> Libraries(const std::string& program,
                                     const std::string& file,
                                     Environment env) {
  env.Set("LD_TRACE_LOADED_OBJECTS", "1");
  const std::vector<std::string> args =
      program == file ? std::vector{file} : std::vector{program, file};
  const auto output = RunForOutput(args, env, /*with_stderr=*/true, kStartPatience);
  return output ? ParseLoaderList(output->text) : std::vector<LoadedLibrary>();
}

std::string PathOf(const std::vector<LoadedLibrary>& libraries, std::string_view beginning) {
  const auto found = std::ranges::find_if(
      libraries, [&](const LoadedLibrary& library) { return library.name.starts_with(beginning); });
  return found == libraries.end() ? "" : found->path;
}

// Returns the version by the library's own function, which uses no device; 0 means unknown.
int QueryVersion(const std::string& library, const char* function) {
  if (library.empty()) return 0;
  void* const handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return 0;
  int version = 0;
  const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(handle, function));
  if (ask != nullptr && ask(&version) != 0) version = 0;
  return version;
}

std::string Loader(const std::vector<LoadedLibrary>& libraries) {
  return PathOf(libraries, "/");  // the loader is the only library that is named by its path
}

}  // namespace

std::vector<LoadedLibrary> ParseLoaderList(const std::string& text) {
  std::vector<LoadedLibrary> libraries;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::stringstream words(line);
    LoadedLibrary library;
    std::string arrow;
    words >> library.name >> arrow >> library.path;
    if (arrow.starts_with("(") && library.name.starts_with("/")) {
      library.path = library.name;
    } else if (arrow != "=>") {
      continue;
    }
    if (library.path == "not") library.path.clear();  // "not found"
    libraries.push_back(std::move(library));
  }
  return libraries;
}

TrainerFacts ReadTrainer(const Environment& env, const std::string& program_folder) {
  TrainerFacts facts;
  Result<std::string> trainer = FindTrainer(env, program_folder);
  if (!trainer) {
    facts.not_found = std::move(trainer).error();
    return facts;
  }
  facts.path = *std::move(trainer);
  const auto output =
      RunForOutput({facts.path, "--version"}, env, /*with_stderr=*/true, kStartPatience);
  if (output)
    (output->status == 0 ? facts.versions : facts.output) = FormatList(SplitLines(output->text));
  facts.libraries = Libraries(facts.path, facts.path, env);
  std::error_code ignored;
  const std::filesystem::path real = std::filesystem::canonical(facts.path, ignored);
  facts.module = FindCudaModule(env, real.parent_path());
  const std::string loader = Loader(facts.libraries);
  if (facts.module.empty() || loader.empty()) return facts;
  facts.module_libraries = Libraries(loader, facts.module, env);
  facts.cuda =
      QueryVersion(PathOf(facts.module_libraries, "libcudart.so"), "cudaRuntimeGetVersion");
  facts.nccl = QueryVersion(PathOf(facts.module_libraries, "libnccl.so"), "ncclGetVersion");
  return facts;
}

std::vector<Finding> CheckTrainer(const TrainerFacts& facts) {
  Finding finding{.name = "ddp-trainer", .facts = {{"path", facts.path}}};
  if (facts.not_found) {
    finding.verdict = Verdict::kMissing;
    finding.what = "not found: JSON configs cannot be trained, other programs can be run";
    finding.remedy = "Build it (scripts/quickstart.sh), or name it with DDPRUN_TRAINER.";
    return {finding};
  }
  finding.what = facts.path;
  const std::string torch = PathOf(facts.libraries, "libtorch_cpu.so");
  Finding library{
      .name = "LibTorch",
      .what = facts.versions + ", in " + std::filesystem::path(torch).parent_path().string(),
      .facts = {{"path", torch}, {"versions", facts.versions}}};
  if (!facts.versions.empty()) return {finding, library};
  library.verdict = Verdict::kMissing;
  std::string missing;
  for (const LoadedLibrary& one : facts.libraries) {
    if (one.path.empty()) missing += (missing.empty() ? "" : ", ") + one.name;
  }
  library.what = missing.empty() ? "ddp-trainer does not start: " + facts.output
                                 : "ddp-trainer does not load, not found: " + missing;
  library.remedy =
      "Run scripts/setup.sh and build again, or let LD_LIBRARY_PATH name the lib folder "
      "of the LibTorch that it was built with.";
  return {finding, library};
}

}  // namespace ddprun::launcher
