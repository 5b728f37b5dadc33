#include "trainer/loop/open_data.h"

#include "trainer/data/random_dataset.h"
#include "trainer/data/text_dataset.h"

namespace ddprun::trainer {

namespace {

std::unique_ptr<Dataset> OpenText(const Config& config, const std::vector<std::string>& files) {
  return std::make_unique<TextDataset>(
      TextDatasetOptions{.patterns = files, .sequence_length = config.data.max_seq_length});
}

void OpenTextData(Job& job) {
  const DataConfig& data = job.config.data;
  std::unique_ptr<Dataset> whole = OpenText(job.config, data.train_files);
  if (!data.validation_files.empty()) {
    job.train = std::move(whole);
    job.validation = OpenText(job.config, data.validation_files);
    return;
  }
  const int64_t set_aside = ValidationCount(whole->size(), data.validation_fraction);
  if (set_aside == 0) {
    job.train = std::move(whole);
    return;
  }
  const int64_t kept = whole->size() - set_aside;
  job.train = std::make_unique<DatasetRange>(*whole, 0, kept);
  job.validation = std::make_unique<DatasetRange>(*whole, kept, set_aside);
  job.wholes.push_back(std::move(whole));
}

}  // namespace

void OpenData(Job& job) {
  const DataConfig& data = job.config.data;
  switch (data.format) {
    case DataFormat::kText:
      OpenTextData(job);
      break;
    case DataFormat::kRandom:
      job.train = std::make_unique<RandomDataset>(
          RandomDatasetOptions{.num_samples = data.num_samples,
                               .input_size = data.input_size,
                               .target_size = data.target_size,
                               .seed = static_cast<uint64_t>(data.data_seed)});
      break;
  }
}

}  // namespace ddprun::trainer
