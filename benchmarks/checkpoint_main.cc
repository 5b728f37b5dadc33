// Steps that compute and then change all of a state, with saves in between, as checkpoint.py
// describes: ddp-checkpoint-speed FOLDER BYTES THREADS SAVES STEP_SECONDS. Prints JSON.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/failure.h"
#include "trainer/checkpoint/saver.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kWidth = 2048;  // of the square tensors: 16 MiB each
constexpr int kBaselineSteps = 12;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double CpuSeconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double MemoryMib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (double kib = 0; word == field + ":" && status >> kib) return kib / 1024;
  }
  return 0;
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// A third of the state are weights, which a step multiplies with; the rest are moments.
class Training {
 public:
  Training(int64_t bytes, double step_seconds) {
    const int64_t count = std::max<int64_t>(bytes / (kWidth * kWidth * 4), 3);
    for (int64_t i = 0; i < count; ++i) state_.push_back(at::rand({kWidth, kWidth}));
    inputs_ = at::rand({64, kWidth});
    for (int i = 0; i < 2; ++i) Step([] {});  // the first also finds its threads
    const Clock::time_point begin = Clock::now();
    Compute();
    const double computing = Since(begin);
    Update();
    const double rows = 64 * (step_seconds - (Since(begin) - computing)) / computing;
    inputs_ = at::rand({std::max<int64_t>(static_cast<int64_t>(rows), 1), kWidth});
  }

  // `wait`: called before the state changes; seconds of the step.
  template <typename Wait>
  double Step(const Wait& wait) {
    const Clock::time_point begin = Clock::now();
    Compute();
    wait();
    Update();
    return Since(begin);
  }

  ddprun::trainer::StateDict State() {
    return ddprun::trainer::SaveState([this](ddprun::StateVisitor& visitor) {
      visitor.Section("state.");
      for (size_t i = 0; i < state_.size(); ++i) visitor.Tensor(std::to_string(i), state_[i]);
    });
  }

 private:
  void Compute() {
    for (size_t i = 0; i < state_.size(); i += 3) at::mm(inputs_, state_[i]);
  }
  void Update() {
    for (at::Tensor& tensor : state_) tensor.mul_(0.999);
  }

  std::vector<at::Tensor> state_;
  at::Tensor inputs_;
};

void Run(const std::string& folder, int64_t bytes, int saves, double step_seconds) {
  using namespace ddprun::trainer;  // NOLINT: all of it is theirs
  Training training(bytes, step_seconds);
  BackgroundSaver saver({.folder = folder, .retention = {.newest = 1}});
  const double memory = MemoryMib("VmRSS");
  saver.Reserve(training.State());
  for (int save = 1; save <= saves; ++save) {
    std::vector<double> without;
    const double cpu_begin = CpuSeconds();
    for (int i = 0; i < kBaselineSteps; ++i) without.push_back(training.Step([] {}));
    const double step_cpu = (CpuSeconds() - cpu_begin) / kBaselineSteps;
    const double step = Median(without);
    const double cpu = CpuSeconds();
    const Clock::time_point begin = Clock::now();
    saver.Begin(training.State(), {.step = save, .attempt = "a"});
    double stall = Since(begin);
    double longest = 0;
    int steps = 0;
    do {
      const double taken = training.Step([&] { stall += saver.WaitForCopy(); });
      longest = std::max(longest, (steps == 0 ? Since(begin) : taken) - step);
      ++steps;
    } while (saver.busy());
    const double without_saving = steps * step;
    const double added = 100 * (Since(begin) - without_saving) / without_saving;
    const auto outcome = saver.Finish();
    if (outcome->error) throw ddprun::Failure(*outcome->error);
    std::printf(
        "{\"step\": %.4f, \"stall\": %.4f, \"longest\": %.4f, \"added\": %.4f, "
        "\"commit\": %.3f, \"cpu\": %.3f, \"memory\": %.0f}\n",
        step, stall, longest, added, outcome->seconds, CpuSeconds() - cpu - steps * step_cpu,
        MemoryMib("VmHWM") - memory);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  try {
    at::set_num_threads(std::atoi(argv[3]));
    Run(argv[1], std::atoll(argv[2]), std::atoi(argv[4]), std::atof(argv[5]));
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return 1;
  }
  return 0;
}
