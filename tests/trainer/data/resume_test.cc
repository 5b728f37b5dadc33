// Every kind of data set, taken up again in the middle of an epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/data/resume_check.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/data/csv_dataset.h"
#include "trainer/data/image_arrays.h"
#include "trainer/data/image_folder.h"
#include "trainer/data/pair_dataset.h"
#include "trainer/data/random_dataset.h"
#include "trainer/data/text_dataset.h"
#include "trainer/data/token_dataset.h"
#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;

const ImageOptions kVaried = {.size = 8, .random_crop_padding = 2, .random_flip = true, .seed = 11};

class Resume : public ResumeCheck {
 protected:
  std::string Pixels(int64_t count) const {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 37 % 251);
    return bytes;
  }

  const ScratchFolder scratch_;
};

TEST_F(Resume, RandomVectors) {
  ExpectExact([] {
    return std::make_unique<RandomDataset>(
        RandomDatasetOptions{.num_samples = 61, .input_size = 3, .target_size = 2});
  });
}

TEST_F(Resume, BytesAndTokens) {
  const std::string text = scratch_.Write("a.txt", Pixels(1501));
  ExpectExact([&] {
    return std::make_unique<TextDataset>(
        TextDatasetOptions{.files = {text}, .sequence_length = 20});
  });
  const std::string tokens = scratch_.Write("a.bin", Pixels(3002));
  ExpectExact([&] {
    return std::make_unique<TokenDataset>(
        TokenDatasetOptions{.files = {tokens}, .sequence_length = 20});
  });
}

TEST_F(Resume, PairsAlsoGroupedByLength) {
  scratch_.Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n");
  std::string rows = "sentence1\tsentence2\tlabel\n";
  for (int i = 0; i < 70; ++i) {
    rows += "a";
    for (int k = 0; k < i * 13 % 17; ++k) rows += k % 3 == 0 ? " b" : " a";
    rows += "\tb b\t" + std::to_string(i % 3) + "\n";
  }
  const std::string file = scratch_.Write("rows.tsv", rows);
  const Open open = [&] {
    return std::make_unique<PairDataset>(PairDatasetOptions{.files = {file}},
                                         LoadTokenizer(scratch_.Path()));
  };
  ExpectExact(open);
  ExpectExact(open, /*grouped=*/true);
}

TEST_F(Resume, Tables) {
  std::string rows = "x,c,kind\n";
  for (int i = 0; i < 53; ++i) {
    rows += std::to_string(i) + (i % 3 == 0 ? ",red," : ",blue,") + (i % 2 == 0 ? "a\n" : "b\n");
  }
  const std::string file = scratch_.Write("a.csv", rows);
  ExpectExact([&] {
    return std::make_unique<CsvDataset>(
        CsvDatasetOptions{.files = {file}, .target = "kind", .standardize = true});
  });
}

TEST_F(Resume, SmallImagesVariedAtRandom) {
  const auto size = [](int64_t n) { return std::string(3, '\0') + static_cast<char>(n); };
  const std::string idx("\0\0\x8", 3);
  const std::string images =
      scratch_.Write("images-idx3", idx + "\3" + size(50) + size(6) + size(6) + Pixels(50 * 36));
  scratch_.Write("labels-idx1", idx + "\1" + size(50) + std::string(50, '\1'));
  ExpectExact([&] { return OpenIdx({images}, kVaried); });
  std::string cifar;
  for (int i = 0; i < 50; ++i) cifar += static_cast<char>(i % 10) + Pixels(3072);
  const std::string file = scratch_.Write("cifar.bin", cifar);
  ExpectExact([&] { return OpenCifar(Cifar::k10, {file}, kVaried); });
}

TEST_F(Resume, ImageFoldersVariedAtRandom) {
  const nlohmann::json golden = golden::Read("images.json");
  std::string base64 = golden.at("cases").at(0).at("file");
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    const std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(alphabet.find(c));
    if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xff);
  }
  for (int i = 0; i < 48; ++i) {
    scratch_.Write((i % 2 == 0 ? "f/a/" : "f/b/") + std::to_string(i) + ".jpg", bytes);
  }
  ImageOptions crops = {.size = 8, .random_flip = true, .random_resized_crop = true, .seed = 11};
  for (const ImageOptions& image : {kVaried, crops}) {
    ExpectExact([&] {
      return std::make_unique<ImageFolder>(
          ImageFolderOptions{.patterns = {scratch_.Path("f")}, .image = image});
    });
  }
}

// The batches of each step, put together by sample.
std::vector<std::multiset<float>> Steps(const Dataset& data,
                                        const std::vector<DistributedSampler>& samplers,
                                        int64_t batch_size) {
  std::vector<std::multiset<float>> steps;
  for (const DistributedSampler& sampler : samplers) {
    Loader loader(data, sampler.Indices(),
                  {.batch_size = batch_size, .epoch = kEpoch, .taken = sampler.taken()});
    for (size_t step = 0; const auto batch = loader.Next(); ++step) {
      if (step == steps.size()) steps.emplace_back();
      const auto* values = batch->inputs.const_data_ptr<float>();
      steps[step].insert(values, values + batch->inputs.numel());
    }
  }
  return steps;
}

TEST_F(Resume, GoesOnWithAnotherNumberOfRanks) {
  const Opened run = Start(
      [] {
        return std::make_unique<RandomDataset>(
            RandomDatasetOptions{.num_samples = 90, .input_size = 1, .target_size = 1});
      },
      false);
  const auto samplers = [&](int64_t ranks, const SamplerState* state) {
    std::vector<DistributedSampler> all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      all.emplace_back(SamplerOptions(run, ranks, rank));
      all.back().set_epoch(kEpoch);
      if (state != nullptr) all.back().Restore(*state);
    }
    return all;
  };
  const auto two = samplers(2, nullptr);
  auto expected = Steps(*run.data, two, 12);
  expected.erase(expected.begin(), expected.begin() + 2);
  const SamplerState state = two[0].state(24);  // two steps
  for (const int64_t ranks : {1, 2, 3, 4}) {
    EXPECT_EQ(Steps(*run.data, samplers(ranks, &state), 24 / ranks), expected) << ranks;
  }
}

TEST_F(Resume, RefusesAnotherOrder) {
  const std::vector<int64_t> lengths(10, 1);
  const SamplerState state = DistributedSampler({.dataset_size = 10}).state(2);
  const auto what = [&](const DistributedSamplerOptions& options) {
    try {
      DistributedSampler(options).Restore(state);
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return std::string();
  };
  EXPECT_EQ(what({.dataset_size = 10}), "");
  EXPECT_EQ(what({.dataset_size = 10, .shuffle = false}),
            "The saved run took its samples by chance alone; here they are taken by the files.");
  EXPECT_THAT(what({.dataset_size = 10, .lengths = lengths, .group_size = 2}),
              HasSubstr("here they are taken by lengths, in groups of 2."));
}

}  // namespace
}  // namespace ddprun::trainer
