#include "trainer/comm/renewal.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/failure.h"
#include "trainer/comm/loss_watch.h"
#include "trainer/comm/meeting_errors.h"

namespace ddprun::trainer {

HostProcessGroup::Options::Check LossCheck(const HostProcessGroup::Options& options) {
  return [recorder = options.recorder, rank = options.rank, generation = options.generation] {
    const std::optional<int> lost = LossWatch(recorder.get(), generation).LostRank();
    if (lost) throw Failure(RankLost(rank, *lost, "the meeting of all ranks"));
  };
}

PassBytes PassOverNodes(HostProcessGroupCore& core, int root, bool takes) {
  static constexpr size_t kPiece = size_t{4} << 20;
  const bool uses = takes || core.placement.rank() == root;
  return [&core, root, uses, unused = std::make_shared<std::vector<std::byte>>()](
             void* data, size_t bytes) -> Status {
    if (!uses) unused->resize(std::min(bytes, kPiece));
    for (size_t begin = 0; begin < bytes; begin += kPiece) {
      std::byte* const piece = uses ? static_cast<std::byte*>(data) + begin : unused->data();
      const Clock::time_point deadline = core.Deadline(c10d::kUnsetTimeout);
      DDPRUN_TRY(core.group.Broadcast(piece, std::min(kPiece, bytes - begin), root, deadline));
    }
    return {};
  };
}

std::shared_ptr<HostProcessGroupCore> RenewedCore(const HostProcessGroupCore& before) {
  const NodePlacement& placement = before.placement;
  HostProcessGroup::Options options{.rank = placement.rank(),
                                    .size = placement.size(),
                                    .timeout = before.timeout.load(),
                                    .generation = before.generation,
                                    .recorder = before.recorder,
                                    .reconnect = before.reconnect,
                                    .link_gigabit = before.link_gigabit};
  // Works may keep the old connections. Their end would wait for messages to the lost rank.
  if (before.wire.transport != nullptr) before.wire.transport->Abort();
  for (bool met = false; !met;) {
    ThrowIfError(before.region->Renew(++options.generation));
    try {
      if (placement.nodes() > 1) {
        options.wire = options.reconnect(options.generation, LossCheck(options));
      }
      met = true;
    } catch (const Failure& failure) {
      if (failure.error().code != Code::kRankLost) throw;
    }
  }
  for (int rank = 0; rank < options.size; ++rank) {
    options.node_of_rank.push_back(placement.NodeOf(rank));
  }
  auto renewed = std::make_shared<HostProcessGroupCore>(before.region, options, before.spin);
  renewed->algorithm = before.algorithm.load();
  return renewed;
}

}  // namespace ddprun::trainer
