// Goes through the training data of a config as a single rank does, without a model:
// ddp-loader-speed CONFIG. Each line "EPOCH" on stdin is answered by "SECONDS BATCHES CHECKSUM",
// the sum of all targets and token ids.
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>

#include <ddprun/sampler.h>
#include "base/failure.h"
#include "trainer/data/loader.h"
#include "trainer/job/job.h"
#include "trainer/job/open_job.h"
#include "trainer/job/options_of.h"

namespace {

int64_t Sum(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kLong ? tensor.sum().item<int64_t>() : 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ddprun::trainer;  // NOLINT: a program of one function
  if (argc != 2) return 2;
  try {
    const Job job = OpenJob(argv[1], {}, ddprun::Environment::OfProcess());
    ddprun::DistributedSampler sampler({.dataset_size = job.train->size(),
                                        .seed = static_cast<uint64_t>(job.config.data.data_seed)});
    for (int64_t epoch = 0; std::cin >> epoch;) {
      const auto start = std::chrono::steady_clock::now();
      sampler.set_epoch(epoch);
      Loader loader(*job.train, sampler.Indices(), TrainLoaderOptions(job.config, epoch));
      int64_t sum = 0;
      while (const auto batch = loader.Next()) sum += Sum(batch->inputs) + Sum(batch->targets);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      std::cout << taken.count() << ' ' << loader.batches() << ' ' << sum << std::endl;
    }
  } catch (const ddprun::Failure& failure) {
    std::fputs(ddprun::Render(failure.error()).c_str(), stderr);
    return 1;
  }
  return 0;
}
