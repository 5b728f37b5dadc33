#include "trainer/loop/open_data.h"

#include "trainer/data/image_arrays.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/random_dataset.h"
#include "trainer/data/text_dataset.h"

namespace ddprun::trainer {

namespace {

std::unique_ptr<Dataset> OpenText(const Config& config, const std::vector<std::string>& files) {
  return std::make_unique<TextDataset>(
      TextDatasetOptions{.patterns = files, .sequence_length = config.data.max_seq_length});
}

ImageOptions ImageOptionsOf(const DataConfig& data) {
  return {.size = data.image_size,
          .mean = data.image_mean,
          .std = data.image_std,
          .random_crop_padding = data.random_crop_padding,
          .random_flip = data.random_flip,
          .random_resized_crop = data.random_resized_crop,
          .seed = static_cast<uint64_t>(data.data_seed)};
}

// `training`: what the validation data must agree with; nullptr for the training data itself.
std::unique_ptr<Dataset> OpenFiles(const Config& config,
                                   const std::vector<std::string>& files,
                                   const Dataset* training) {
  const DataConfig& data = config.data;
  switch (data.format) {
    case DataFormat::kText:
      return OpenText(config, files);
    case DataFormat::kIdx:
      return OpenIdx(files, ImageOptionsOf(data));
    case DataFormat::kCifar10:
      return OpenCifar(Cifar::k10, files, ImageOptionsOf(data));
    case DataFormat::kCifar100:
      return OpenCifar(Cifar::k100, files, ImageOptionsOf(data));
    case DataFormat::kImageFolder:
      return std::make_unique<ImageFolder>(
          ImageFolderOptions{.patterns = files,
                             .labels = training != nullptr ? training->shape().labels : data.labels,
                             .image = ImageOptionsOf(data)});
    case DataFormat::kRandom:
      break;
  }
  return std::make_unique<RandomDataset>(
      RandomDatasetOptions{.num_samples = data.num_samples,
                           .input_size = data.input_size,
                           .target_size = data.target_size,
                           .seed = static_cast<uint64_t>(data.data_seed)});
}

// Text is cut at one place, so that no sentence is in both parts. Other samples are taken at equal
// distances: files are often sorted by class.
void SetAside(std::unique_ptr<Dataset> whole, int64_t count, Job& job) {
  const int64_t size = whole->size();
  if (whole->tokens_per_sample() > 0) {
    job.train = std::make_unique<DatasetRange>(*whole, 0, size - count);
    job.validation = std::make_unique<DatasetRange>(*whole, size - count, count);
  } else {
    std::vector<int64_t> train;
    std::vector<int64_t> validation;
    for (int64_t i = 0; i < size; ++i) {
      const bool aside = (i + 1) * count / size > i * count / size;
      (aside ? validation : train).push_back(i);
    }
    job.train = std::make_unique<DatasetSubset>(*whole, std::move(train));
    job.validation = std::make_unique<DatasetSubset>(*whole, std::move(validation));
  }
  job.wholes.push_back(std::move(whole));
}

}  // namespace

void OpenData(Job& job) {
  const DataConfig& data = job.config.data;
  std::unique_ptr<Dataset> whole = OpenFiles(job.config, data.train_files, nullptr);
  const int64_t set_aside = ValidationCount(whole->size(), data.validation_fraction);
  if (!data.validation_files.empty()) {
    job.validation = OpenFiles(job.config, data.validation_files, whole.get());
  }
  if (set_aside > 0) {
    SetAside(std::move(whole), set_aside, job);
  } else {
    job.train = std::move(whole);
  }
}

DistributedSamplerOptions TrainSamplerOptions(const Job& job, const RankInfo& rank) {
  const DataConfig& data = job.config.data;
  const TrainingConfig& training = job.config.training;
  const bool by_step = data.sample_order == SampleOrder::kWorldSizeIndependent;
  const int64_t rank_batch =
      training.per_device_train_batch_size * training.gradient_accumulation_steps;
  return {.dataset_size = job.train->size(),
          .num_replicas = rank.world_size,
          .rank = rank.rank,
          .shuffle = data.shuffle,
          .seed = static_cast<uint64_t>(data.data_seed),
          .drop_last = by_step && data.dataloader_drop_last,
          .global_batch = by_step ? rank_batch * rank.world_size : 0};
}

LoaderOptions TrainLoaderOptions(const Config& config, int64_t epoch) {
  LoaderOptions options = ValidationLoaderOptions(config);
  options.batch_size = config.training.per_device_train_batch_size;
  options.drop_last = config.data.dataloader_drop_last;
  options.epoch = epoch;
  return options;
}

LoaderOptions ValidationLoaderOptions(const Config& config) {
  const DataConfig& data = config.data;
  return {.batch_size = config.training.per_device_eval_batch_size,
          .prefetch = data.dataloader_num_workers * data.dataloader_prefetch_factor,
          .threads = data.dataloader_num_workers};
}

}  // namespace ddprun::trainer
