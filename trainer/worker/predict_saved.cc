#include "trainer/worker/predict_saved.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>

#include "base/failure.h"
#include "trainer/compute/precision.h"
#include "trainer/data/batch_mover.h"
#include "trainer/data/loader.h"
#include "trainer/job/open_data.h"
#include "trainer/job/options_of.h"

namespace ddprun::trainer {

namespace {

// The batches of one process, of which the ranks take one each in a round, in their order.
struct BatchTurns {
  int64_t rows = 0;  // of all batches
  int64_t batch = 1;
  int64_t ranks = 1;

  int64_t rounds() const { return (rows + batch * ranks - 1) / (batch * ranks); }
  // Returns the number of rows of a rank's batch; 0: it has none in this round.
  int64_t RowsIn(int64_t round, int64_t rank) const {
    return std::clamp<int64_t>(rows - (round * ranks + rank) * batch, 0, batch);
  }
  std::vector<int64_t> RowsOf(int64_t rank) const {
    std::vector<int64_t> own;
    for (int64_t round = 0; round < rounds(); ++round) {
      const int64_t first = (round * ranks + rank) * batch;
      for (int64_t i = 0; i < RowsIn(round, rank); ++i) own.push_back(first + i);
    }
    return own;
  }
};

// Returns the outputs of all batches of a round on rank 0, and nothing on other ranks. A
// collective, for which all ranks fill their outputs up to a whole batch.
std::vector<at::Tensor> GatherRound(const at::Tensor& outputs,
                                    int64_t round,
                                    const BatchTurns& turns,
                                    const Mesh& mesh) {
  if (mesh.control == nullptr) return {outputs};
  std::vector<int64_t> sizes = outputs.sizes().vec();
  sizes[0] = turns.batch;
  at::Tensor whole = at::zeros(sizes, outputs.options());
  whole.narrow(0, 0, outputs.size(0)).copy_(outputs);
  std::vector<at::Tensor> found;
  if (mesh.world.rank == 0) {
    for (int64_t rank = 0; rank < turns.ranks; ++rank) found.push_back(at::empty_like(whole));
  }
  std::vector<std::vector<at::Tensor>> to;
  if (mesh.world.rank == 0) to.push_back(found);
  std::vector<at::Tensor> from = {whole};
  mesh.control->gather(to, from)->wait();
  for (size_t rank = 0; rank < found.size(); ++rank) {
    found[rank] = found[rank].narrow(0, 0, turns.RowsIn(round, static_cast<int64_t>(rank)));
  }
  std::erase_if(found, [](const at::Tensor& one) { return one.size(0) == 0; });
  return found;
}

}  // namespace

int64_t PredictSaved(const SavedJob& saved,
                     const std::vector<std::string>& files,
                     PredictionFormat format,
                     const Mesh& mesh,
                     const std::function<void(const std::string& text)>& write) {
  const Job& job = saved.job;
  const std::unique_ptr<Dataset> data = OpenFurtherData(job, files, Targets::kNone);
  if (data->tokens_per_sample() > 0) {
    throw Failure(Error{.code = Code::kUsage,
                        .title = "DATA AND MODEL DO NOT FIT",
                        .where = saved.path,
                        .what = "\"" + saved.path +
                                "\" is of a language model, whose predictions are the next tokens.",
                        .hint = "ddp-trainer generate writes text with it, and ddp-trainer "
                                "evaluate computes its loss.",
                        .page = "data-and-model"});
  }
  const std::shared_ptr<Model> model = saved.load(job, mesh.device);
  model->eval();
  const at::NoGradGuard no_grad;
  const PrecisionScope precision(job.config.training.precision);
  const bool of_images = job.config.data.format == DataFormat::kImageFolder;
  PredictionText text(format, job.train->shape(),
                      of_images ? data->Files() : std::vector<std::string>());
  const LoaderOptions options = ValidationLoaderOptions(job.config);
  const BatchTurns turns{data->size(), options.batch_size, mesh.world.size};
  const BatchMover mover(mesh.device);
  Loader loader(*data, turns.RowsOf(mesh.world.rank), options);
  for (int64_t round = 0; round < turns.rounds(); ++round) {
    std::optional<Batch> batch = loader.Next();
    // In the last round, a rank without a batch meets the others with a row that does not count.
    if (!batch) batch = Loader(*data, {0}, options).Next();
    const at::Tensor outputs = model->Outputs(mover.Move(*std::move(batch))).cpu();
    for (const at::Tensor& of_batch : GatherRound(outputs, round, turns, mesh)) {
      write(text.Next(of_batch));
    }
  }
  return data->size();
}

}  // namespace ddprun::trainer
