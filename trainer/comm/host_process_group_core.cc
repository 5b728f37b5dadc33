#include "trainer/comm/host_process_group_core.h"

#include "trainer/comm/emulated_link.h"
#include "trainer/comm/multi_node_group.h"
#include "trainer/comm/node_group.h"

namespace ddprun::trainer {

namespace {

std::vector<int> NodeOfRank(const HostProcessGroup::Options& options) {
  if (!options.node_of_rank.empty()) return options.node_of_rank;
  return std::vector<int>(static_cast<size_t>(options.size), 0);
}

}  // namespace

HostProcessGroupCore::HostProcessGroupCore(std::shared_ptr<SharedRegion> memory,
                                           const Options& options,
                                           std::chrono::nanoseconds spin_time)
    : placement(options.rank, NodeOfRank(options), options.names),
      wire(options.wire),
      region(std::move(memory)),
      recorder(options.recorder),
      generation(options.generation),
      spin(spin_time),
      timeout(options.timeout),
      link_gigabit(options.link_gigabit),
      reconnect(options.reconnect),
      collectives(MakeCollectives()),
      group(*collectives),
      mailbox(*region,
              placement,
              wire,
              {.spin = spin, .recorder = recorder.get(), .recorded_group = RecordedGroup()}) {
  const uint16_t group_number = RecordedGroup();
  if (recorder != nullptr && !IsOfAllRanks(group_number)) recorder->NoteGroup(group_number);
}

uint16_t HostProcessGroupCore::RecordedGroup() const {
  return static_cast<uint16_t>(generation << kPartGroupBits | wire.group);
}

std::unique_ptr<Collectives> HostProcessGroupCore::MakeCollectives() const {
  NodeMeeting::Options options{.rank = local_rank(),
                               .spin = spin,
                               .recorder = recorder.get(),
                               .names = placement.MemberNames(placement.node()),
                               .group = RecordedGroup()};
  if (link_gigabit > 0) {
    options.on_begin = [this](const auto& header, const auto& cancelled) {
      WaitOnLink(SecondsOnLink(header, placement.size(), link_gigabit), cancelled);
    };
  }
  const bool several_nodes = placement.nodes() > 1;
  if (const auto of_all = AllRanksGeneration()) {
    options.losses = LossWatch(recorder.get(), *of_all, several_nodes);
  }
  if (several_nodes) {
    return std::make_unique<MultiNodeGroup>(*region, placement, wire, options);
  }
  return std::make_unique<NodeGroup>(*region, std::move(options));
}

std::optional<int> HostProcessGroupCore::AllRanksGeneration() const {
  return wire.group == 0 ? std::optional<int>(generation) : std::nullopt;
}

}  // namespace ddprun::trainer
