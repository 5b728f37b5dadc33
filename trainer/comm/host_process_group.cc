#include "trainer/comm/host_process_group.h"

#include <ATen/ops/from_blob.h>

#include "base/failure.h"
#include "trainer/comm/group_forming.h"
#include "trainer/comm/host_process_group_core.h"
#include "trainer/comm/host_process_group_tensors.h"
#include "trainer/comm/host_process_group_works.h"
#include "trainer/comm/meeting_errors.h"
#include "trainer/comm/node_group.h"
#include "trainer/comm/renewal.h"

namespace ddprun {
using namespace trainer;  // NOLINT: the internals of this library

namespace {

std::shared_ptr<SharedRegion> MapMemory(const UniqueFd& memory,
                                        const HostProcessGroup::Options& options) {
  return ValueOrThrow(
      SharedRegion::Map(memory, options.LocalSize(), options.generation, options.heap_bytes));
}

}  // namespace

c10::intrusive_ptr<HostProcessGroup> HostProcessGroup::Create(const UniqueFd& memory,
                                                              const Options& options) {
  return c10::intrusive_ptr<HostProcessGroup>::unsafe_steal_from_new(
      new HostProcessGroup(memory, options, SpinTime(options.LocalSize())));
}

HostProcessGroup::HostProcessGroup(const UniqueFd& memory,
                                   const Options& options,
                                   std::chrono::nanoseconds spin)
    : TensorCollectives(
          options.rank,
          options.size,
          std::make_shared<HostProcessGroupCore>(MapMemory(memory, options), options, spin)) {}

// Aborts, so that operations which wait for peers do not keep a failing process alive.
HostProcessGroup::~HostProcessGroup() {
  abort();
}

void HostProcessGroup::setTimeout(std::chrono::milliseconds timeout) {
  core_->timeout = timeout;
}

void HostProcessGroup::SetAllReduceAlgorithm(AllReduceAlgorithm algorithm) {
  core_->algorithm = algorithm;
}

void HostProcessGroup::abort() {
  core_->group.Cancel();
  core_->mailbox.Cancel();
}

int HostProcessGroup::nodes() const {
  return core_->placement.nodes();
}

void HostProcessGroup::CheckRanks() const {
  const std::optional<int> generation = core_->AllRanksGeneration();
  if (!generation) return;
  const std::optional<int> lost = LossWatch(core_->recorder.get(), *generation).LostRank();
  if (lost) throw Failure(RankLost(getRank(), *lost, "the end of what it had begun"));
}

void HostProcessGroup::Renew() {
  abort();
  const std::shared_ptr<HostProcessGroupCore> before = core_;
  // Waits for running operations, because they use other ranks' memory. The other ranks keep it
  // until then, because they wait here, too.
  ThrowIfError(before->queue.RunNow([] { return Status(); }));
  ControlBlock& own = before->region->control(before->local_rank());
  own.given_up = true;
  AdvanceAndWake(own.arrived, own.sleepers, own.arrived);
  core_ = RenewedCore(*before);
}

void HostProcessGroup::FreeOldGenerations() {
  core_->region->FreeOldGenerations();
}

int HostProcessGroup::generation() const {
  return core_->generation;
}

uint64_t HostProcessGroup::getSequenceNumberForGroup() {
  return core_->begun;
}

void HostProcessGroup::Stream(int root,
                              bool takes,
                              const std::function<void(const PassBytes& pass)>& use) {
  Run(c10d::OpType::BROADCAST, /*async=*/false, {}, [&, core = core_.get()]() -> Status {
    const auto pass_on = [&](const trainer::PassBytes& pass) {
      try {
        use([&](void* data, size_t bytes) { ThrowIfError(pass(data, bytes)); });
      } catch (const Failure& failure) {
        return Status(failure.error());  // because other ranks wait at the end of the stream
      }
      return Status();
    };
    if (nodes() > 1) return pass_on(PassOverNodes(*core, root, takes));
    auto& group = dynamic_cast<NodeGroup&>(core->group);
    return group.Stream(root, takes, core->timeout.load(), pass_on);
  });
}

at::Tensor HostProcessGroup::allocateTensor(long size, at::TensorOptions options) {
  const size_t bytes = static_cast<size_t>(size) * options.dtype().itemsize();
  std::byte* data = core_->region->Allocate(core_->local_rank(), bytes);
  if (data == nullptr) {
    RefuseTensor("No shared memory is left for a tensor of " + std::to_string(bytes) + " bytes.",
                 "Free other tensors of allocateTensor first.");
  }
  const auto free = [region = core_->region, rank = core_->local_rank(), data](void*) {
    region->Free(rank, data);
  };
  return at::from_blob(data, {size}, free, options.device(at::kCPU));
}

HostProcessGroup::Work HostProcessGroup::send(Tensors& tensors, int destination, int tag) {
  return StartMessage(core_, c10d::OpType::SEND, tensors, RankOf(destination, getSize()), tag);
}

HostProcessGroup::Work HostProcessGroup::recv(Tensors& tensors, int source, int tag) {
  return StartMessage(core_, c10d::OpType::RECV, tensors, RankOf(source, getSize()), tag);
}

HostProcessGroup::Work HostProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  return StartMessage(core_, c10d::OpType::RECVANYSOURCE, tensors, Mailbox::kAnyRank, tag);
}

c10::intrusive_ptr<HostProcessGroup> HostProcessGroup::NewGroup(const std::vector<int>& ranks) {
  const FormedGroup formed = FormGroup(*core_, ranks);
  if (ranks.empty()) return nullptr;
  return c10::intrusive_ptr<HostProcessGroup>::unsafe_steal_from_new(
      new HostProcessGroup(formed.memory, formed.options, core_->spin));
}

}  // namespace ddprun
