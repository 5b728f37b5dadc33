#include "trainer/parallel/virtual_ranks.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/failure.h"
#include "trainer/compute/matmul.h"
#include "trainer/parallel/mesh_collectives.h"

namespace ddprun::trainer {

void TreeSum::Add(RankRange piece, const at::Tensor& value) {
  int64_t sums = SumsAfter(ranks_, piece, share_);
  if (sums == 0) return sums_.push_back(value.clone());
  sums_.back().add_(value);
  for (; sums > 1; --sums) {
    const at::Tensor right = std::move(sums_.back());
    sums_.pop_back();
    sums_.back().add_(right);
  }
}

void TreeSum::Push(RankRange piece, at::Tensor value) {
  for (int64_t sums = SumsAfter(ranks_, piece, share_); sums > 0; --sums) {
    value.add_(sums_.back());  // the order of two summands changes no bit
    sums_.pop_back();
  }
  sums_.push_back(std::move(value));
}

VirtualRanks::VirtualRanks(int64_t ranks, int process, int processes)
    : ranks_(ranks), own_(RanksOfProcess(ranks, process, processes)) {
  for (int other = 0; other < processes; ++other) {
    subtrees_.push_back(SubtreesIn(ranks, RanksOfProcess(ranks, other, processes)));
    most_subtrees_ = std::max(most_subtrees_, subtrees_.back().size());
  }
}

void VirtualRanks::Keep(const std::vector<at::Tensor>& buckets) {
  if (kept_.empty()) {
    kept_.assign(buckets.size(), TreeSum(ranks_, own_));
    next_ = own_.begin;
  }
  const RankRange piece{.begin = next_, .end = next_ + 1};
  for (size_t i = 0; i < buckets.size(); ++i) kept_[i].Add(piece, buckets[i]);
  ++next_;
}

void VirtualRanks::RunStep(size_t micro_batches,
                           const std::vector<at::Tensor>& buffers,
                           const std::function<void(size_t micro_batch)>& run,
                           const std::function<std::vector<at::Tensor>()>& take) {
  const at::NoGradGuard no_grad;
  kept_.clear();
  const auto own = static_cast<size_t>(own_.size());
  const auto copies = [&] {
    std::vector<at::Tensor> copied;
    for (size_t i = 0; own > 1 && i < buffers.size(); ++i) copied.push_back(buffers[i].clone());
    return copied;
  };
  const auto restore = [&](const std::vector<at::Tensor>& values) {
    for (size_t i = 0; i < values.size(); ++i) buffers[i].copy_(values[i]);
  };
  const std::vector<at::Tensor> before = copies();
  std::vector<at::Tensor> first;
  for (size_t rank = 0; rank < own; ++rank) {
    for (size_t i = rank; i < micro_batches; i += own) {
      const at::AutoGradMode grad(true);
      run(i);
    }
    if (rank == 0) first = copies();
    if (rank + 1 == own) break;
    restore(before);
    Keep(take());
  }
  restore(first);
}

void VirtualRanks::NameSettings(StateVisitor& visitor) const {
  visitor.Section("virtual_ranks.");
  const auto name = [&](const char* what, int64_t here) {
    int64_t saved = here;
    visitor.Number(what, saved);
    if (saved == here) return;
    throw Failure(Error{.code = Code::kStateDoesNotFit,
                        .title = "STATE DOES NOT FIT",
                        .where = std::string("virtual_ranks.") + what,
                        .what = "The run was saved with " + std::to_string(saved) +
                                "; here it is " + std::to_string(here) +
                                ", which would give other bits.",
                        .hint = "Go on with the training.virtual_ranks and training.matmul_engine "
                                "of the saved run.",
                        .page = "state-does-not-fit"});
  };
  name("count", ranks_);
  name("threads", at::get_num_threads());
  name("onednn", CurrentMatmulEngine() == MatmulEngine::kOneDnn ? 1 : 0);
}

std::function<void()> VirtualRanks::Start(GradientBucket& bucket, c10d::Backend& group) {
  TreeSum sum = kept_.empty() ? TreeSum(ranks_, own_) : std::move(kept_[bucket.index]);
  sum.Push({.begin = own_.end - 1, .end = own_.end}, bucket.flat);
  if (subtrees_.size() == 1) {
    bucket.flat.div_(ranks_);
    return [] {};
  }
  if (subtrees_.size() > 2 || most_subtrees_ > 1) return Exchange(sum.sums(), bucket.flat, group);
  // Uses an all-reduce, because two sums have only one order.
  std::vector<at::Tensor> tensors = {bucket.flat};
  return [work = group.allreduce(tensors), flat = bucket.flat, ranks = ranks_] {
    work->wait();
    flat.div_(ranks);
  };
}

std::function<void()> VirtualRanks::Exchange(const std::vector<at::Tensor>& sums,
                                             const at::Tensor& flat,
                                             c10d::Backend& group) const {
  const auto processes = static_cast<int64_t>(subtrees_.size());
  const int64_t width = (flat.numel() + processes - 1) / processes;
  std::vector<int64_t> widths;
  for (int64_t i = 0; i < processes; ++i) {
    widths.push_back(std::clamp<int64_t>(flat.numel() - i * width, 0, width));
  }
  const int64_t own_width = widths[group.getRank()];
  std::vector<at::Tensor> received;
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (size_t i = 0; i < most_subtrees_; ++i) {
    std::vector<int64_t> send(processes, 0);
    if (i < sums.size()) send = widths;
    std::vector<int64_t> receive;
    for (const auto& nodes : subtrees_) receive.push_back(i < nodes.size() ? own_width : 0);
    at::Tensor input = i < sums.size() ? sums[i] : at::empty({0}, flat.options());
    received.push_back(
        at::empty({std::accumulate(receive.begin(), receive.end(), int64_t{0})}, flat.options()));
    works.push_back(group.alltoall_base(received.back(), input, receive, send));
  }
  return [this, works, received, flat, width, own_width, processes, &group] {
    for (const auto& work : works) work->wait();
    TreeSum total(ranks_, {.begin = 0, .end = ranks_});
    std::vector<int64_t> offsets(received.size(), 0);
    for (const auto& nodes : subtrees_) {
      for (size_t i = 0; i < nodes.size(); ++i) {
        const int64_t offset = std::exchange(offsets[i], offsets[i] + own_width);
        total.Push(nodes[i], received[i].narrow(0, offset, own_width));
      }
    }
    // All slices have one length, so the last ones may extend beyond the bucket.
    const bool fits = width * processes == flat.numel();
    at::Tensor whole = fits ? flat : at::empty({width * processes}, flat.options());
    at::Tensor own = whole.narrow(0, group.getRank() * width, width);
    own.narrow(0, 0, own_width).copy_(total.sums()[0].div_(ranks_));
    group._allgather_base(whole, own)->wait();
    if (!fits) flat.copy_(whole.narrow(0, 0, flat.numel()));
  };
}

at::Tensor SumOverRanks(const at::Tensor& rows, const RankShare& share, c10d::Backend* control) {
  if (share.count == 1) {
    AllReduceOnHost(control, rows);
    return rows[0];
  }
  // Each process gives its rows. Adding the others' zeros changes no bit.
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes[0] = share.count;
  const at::Tensor all = at::zeros(sizes, rows.options());
  all.narrow(0, share.own.begin, share.own.size()).copy_(rows);
  AllReduceOnHost(control, all);
  TreeSum total(share.count, {.begin = 0, .end = share.count});
  for (int64_t rank = 0; rank < share.count; ++rank) {
    total.Push({.begin = rank, .end = rank + 1}, all[rank]);
  }
  return total.sums()[0];
}

}  // namespace ddprun::trainer
