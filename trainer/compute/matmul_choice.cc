#include "trainer/compute/matmul_choice.h"

#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/file.h>
#include <torch/version.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/unique_fd.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

// The error of products of 1024 terms is about 1e-6 in float32, 5e-4 with tensor-float-32 factors
// and 4e-3 with bfloat16 factors.
constexpr double kLargestExactError = 1e-5;
constexpr double kWorthwhile = 1.03;

constexpr MatmulEngine kEngines[] = {MatmulEngine::kDefault, MatmulEngine::kOneDnn};

// Returns the lines of /proc/cpuinfo that decide which kernels fit this processor.
std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string found, line;
  while (std::getline(file, line) && !line.empty()) {
    for (const char* field : {"vendor_id", "cpu family", "model", "stepping", "flags"}) {
      if (line.starts_with(field)) found += line + "\n";
    }
  }
  return found;
}

std::optional<EngineChoice> Read(const std::string& path) {
  const std::optional<std::string> text = ReadIfReadable(path);
  const json content = json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!content.is_object() || !content.value("engines", json()).is_array()) return std::nullopt;
  EngineChoice choice;
  choice.remembered = true;
  for (const json& row : content["engines"]) {
    for (const MatmulEngine engine : kEngines) {
      if (!row.is_object() || row.value("name", json()) != MatmulEngineName(engine)) continue;
      const json& gflops = row.value("gflops", json());
      const json& error = row.value("error", json());
      if (!gflops.is_number() || !error.is_number()) return std::nullopt;
      choice.measurements.push_back({engine, gflops.get<double>(), error.get<double>()});
    }
  }
  if (choice.measurements.empty()) return std::nullopt;
  choice.engine = FastestExact(choice.measurements);
  if (choice.engine == MatmulEngine::kOneDnn && !HasOneDnn()) return std::nullopt;
  return choice;
}

// Ignores errors: then the next process measures, too.
void Write(const std::string& path, const EngineChoice& choice) {
  json engines = json::array();
  for (const EngineMeasurement& each : choice.measurements) {
    engines.push_back(
        {{"name", MatmulEngineName(each.engine)}, {"gflops", each.gflops}, {"error", each.error}});
  }
  (void)WriteFileAtomically(path, json{{"engines", engines}}.dump(1) + "\n", Durability::kUnsynced);
}

// Locks a file as long as the descriptor is open. Returns an invalid one if that fails.
UniqueFd LockBeside(const std::string& path) {
  UniqueFd fd(open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.valid()) flock(fd.get(), LOCK_EX);
  return fd;
}

EngineChoice MeasureNow() {
  EngineChoice choice;
  choice.measurements = MeasureEngines();
  choice.engine = FastestExact(choice.measurements);
  return choice;
}

}  // namespace

std::string EngineChoice::Describe() const {
  std::string text = std::string("matrix products: ") + MatmulEngineName(engine);
  std::string others;
  char number[64];
  for (const EngineMeasurement& each : measurements) {
    if (each.engine == engine) {
      std::snprintf(number, sizeof number, ", %.0f GFLOP/s, error %.0e", each.gflops, each.error);
      text += number;
    } else {
      std::snprintf(number, sizeof number, "%s: %.0f GFLOP/s, error %.0e",
                    MatmulEngineName(each.engine), each.gflops, each.error);
      others += (others.empty() ? "" : "; ") + std::string(number);
    }
  }
  return others.empty() ? text : text + " (" + others + ")";
}

MatmulEngine FastestExact(const std::vector<EngineMeasurement>& measurements) {
  double of_default = 0;
  for (const EngineMeasurement& each : measurements) {
    if (each.engine == MatmulEngine::kDefault) of_default = each.gflops;
  }
  MatmulEngine best = MatmulEngine::kDefault;
  double fastest = of_default * kWorthwhile;
  for (const EngineMeasurement& each : measurements) {
    // Not `error > kLargestExactError`, because that is false for NaN.
    const bool exact = each.error <= kLargestExactError;
    if (!exact || each.gflops <= fastest || each.engine == MatmulEngine::kDefault) continue;
    best = each.engine;
    fastest = each.gflops;
  }
  return best;
}

std::string EngineFile(const Environment& environment) {
  std::string folder = environment.GetOr("XDG_CACHE_HOME", "");
  if (folder.empty()) {
    const std::string home = environment.GetOr("HOME", "");
    if (home.empty()) return "";
    folder = home + "/.cache";
  }
  // A file for each processor and LibTorch, because several machines may share a home.
  const std::string key = Processor() + TORCH_VERSION;
  char name[64];
  std::snprintf(name, sizeof name, "/ddprun/matmul-%016zx-%d.json", std::hash<std::string>()(key),
                at::get_num_threads());
  return folder + name;
}

EngineChoice ChooseEngine(const std::string& file) {
  if (file.empty()) return MeasureNow();
  if (std::optional<EngineChoice> choice = Read(file)) return *choice;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  const UniqueFd lock = LockBeside(file);
  if (std::optional<EngineChoice> choice = Read(file)) return *choice;
  EngineChoice choice = MeasureNow();
  Write(file, choice);
  return choice;
}

}  // namespace ddprun::trainer
