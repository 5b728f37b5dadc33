#include "trainer/worker/use_ranks.h"

#include <chrono>
#include <variant>

#include "base/failure.h"
#include "trainer/comm/bootstrap.h"
#include "trainer/compute/device.h"
#include "trainer/compute/math_kernels.h"
#include "trainer/worker/compute_setup.h"
#include "trainer/worker/device_mesh.h"

namespace ddprun::trainer {

UseRanks MeetToUse(const std::string& device, const Environment& environment, Job& job) {
  const RankInfo rank = ValueOrThrow(ReadRankInfo(environment));
  const auto timeout = std::chrono::seconds(job.config.comm.init_timeout_seconds);
  job.device = ChooseDevice(device, environment, "--device");
  UseRanks ranks;
  Mesh& mesh = ranks.mesh;
  if (rank.world_size > 1) {
    mesh.control = InitProcessGroup(environment, timeout);
    mesh.data.rank = mesh.world.rank = rank.rank;
    mesh.data.size = mesh.world.size = rank.world_size;
    if (job.config.training.virtual_ranks % rank.world_size != 0) {
      job.config.training.virtual_ranks = 0;
    }
  }
  ranks.note = PutOnDeviceOf(device, "--device", job.device, rank, environment, timeout, mesh);
  UseDevice(mesh.device);
  ChooseMathKernels();
  if (!mesh.device.is_cpu()) {
    SetUpDevices(job.config.training, std::holds_alternative<BertOptions>(job.model));
    SetUpKernels(job, mesh.device);
  }
  return ranks;
}

UseRanks TakeDevice(const std::string& device, const Environment& environment) {
  const RankInfo alone = {.local_rank = ValueOrThrow(ReadRankInfo(environment)).local_rank};
  UseRanks ranks;
  ranks.note = PutOnDeviceOf(device, "--device", ChooseDevice(device, environment, "--device"),
                             alone, environment, /*timeout=*/{}, ranks.mesh);
  UseDevice(ranks.mesh.device);
  if (!ranks.mesh.device.is_cpu()) SetUpDevices({}, /*lengths_change=*/true);
  return ranks;
}

}  // namespace ddprun::trainer
