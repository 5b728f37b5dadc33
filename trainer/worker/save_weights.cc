#include "trainer/worker/save_weights.h"

#include <filesystem>
#include <string>
#include <utility>

#include "base/failure.h"
#include "base/shell_text.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/models/adapter_folder.h"
#include "trainer/models/lora.h"
#include "trainer/models/pretrained.h"
#include "trainer/report/format.h"
#include "trainer/worker/best_checkpoint.h"

namespace ddprun::trainer {

namespace {

Failure WeightsNotSaved(const Job& job, const RunStart& start, Trainer& trainer, Error cause) {
  std::string hint =
      "They are lost; the metrics that were written are kept. Make room or let the folder be "
      "written\nto, or give another one (run.output_dir), and train again.";
  const std::string checkpoint = CheckpointPath(start.place.folder, trainer.step());
  if (std::filesystem::exists(checkpoint)) {
    hint = "They are not lost: " + checkpoint + " has them.\n";
    if (!job.config.checkpoint.save_only_model) {
      hint += "Make room or let the folder be written to, and start again with run.resume \"" +
              start.folder.path + "\":\nno step is done again. Or take";
    } else {
      hint += "Take";
    }
    hint += " them from there: ddp-trainer checkpoint export " + QuoteForShell(checkpoint) +
            " --to=FOLDER";
  }
  const auto bytes = static_cast<double>(StateBytes(trainer.model()));
  return Failure(Error{.title = "WEIGHTS NOT SAVED",
                       .where = cause.where,
                       .what = "Training has ended, but its weights, " + ByteText(bytes) +
                               ", could not be saved:\n" + cause.what,
                       .hint = std::move(hint),
                       .page = "weights-not-saved"});
}

}  // namespace

void SaveWeights(const Job& job,
                 const RunStart& start,
                 int64_t step,
                 Trainer& trainer,
                 const Observers& observers) {
  const std::string path = start.folder.path + "/model";
  const ModelConfig& model = job.config.model;
  // A single weights file has no other files beside it.
  const bool folder_given = std::filesystem::is_directory(model.name_or_path);
  std::string aside;
  try {
    // A run that is resumed takes the model's folder as the sign that all is saved.
    if (HasLora(trainer.model())) {
      observers.Note("adapter for peft: " + SaveAdapter(trainer.model(), job.model,
                                                        model.name_or_path,
                                                        start.folder.path + "/adapter"));
    }
    aside = SavePretrained(trainer.model(), path,
                           {.source = folder_given ? model.name_or_path : "",
                            .tokenizer = job.config.data.tokenizer,
                            .labels = job.train->shape().labels,
                            .files = job.model_files});
  } catch (const Failure& failure) {
    Error cause = failure.error();
    cause.where = path;
    throw WeightsNotSaved(job, start, trainer, std::move(cause));
  }
  const std::string& score = job.config.checkpoint.save_best;
  const char* const which = step == trainer.step() ? ", of the last step, " : ", of the best, ";
  observers.Note("weights: " + path + "/model.safetensors" +
                 (score.empty() ? "" : which + std::to_string(step)));
  if (!score.empty()) observers.Note(BestText(score, start.place.folder));
  if (!aside.empty()) {
    observers.Note("the model folder of before has files that ddprun did not write: it is " +
                   aside + " now");
  }
}

}  // namespace ddprun::trainer
