// Images: files to pixels, pixels to numbers, against Pillow's results.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/failure.h"
#include "tests/base/error_of.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/data/image_arrays.h"
#include "trainer/data/image_folder.h"

namespace ddprun::trainer {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string FromBase64(const std::string& text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(alphabet.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

uint32_t Crc(const std::vector<uint8_t>& bytes) {
  uint32_t crc = 0xffffffff;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

std::string GoldenFile(const std::string& kind, const std::string& mode) {
  const json golden = golden::Read("images.json");
  for (const json& golden_case : golden.at("cases")) {
    if (golden_case.at("kind") == kind && golden_case.at("mode") == mode) {
      return FromBase64(golden_case.at("file"));
    }
  }
  throw std::runtime_error("no such case");
}

TEST(DecodeImage, EqualsPillowBitForBit) {
  const json golden = golden::Read("images.json");
  for (const json& golden_case : golden.at("cases")) {
    SCOPED_TRACE(golden_case.at("kind").get<std::string>() + " " +
                 golden_case.at("mode").get<std::string>());
    const Result<Image> image = DecodeImage(FromBase64(golden_case.at("file")));
    ASSERT_TRUE(image.has_value()) << image.error().what;
    EXPECT_EQ(image->width, 23);
    EXPECT_EQ(image->height, 17);
    EXPECT_EQ(Crc(image->pixels), golden_case.at("pixels").get<uint32_t>());
    for (const json& resized : golden_case.at("resized")) {
      const Image result = Resize(*image, resized.at("height"), resized.at("width"));
      EXPECT_EQ(Crc(result.pixels), resized.at("pixels").get<uint32_t>()) << resized;
    }
    for (const json& cropped : golden_case.at("cropped")) {
      const Image result = ResizeAndCenterCrop(*image, cropped.at("size"));
      EXPECT_EQ(Crc(result.pixels), cropped.at("pixels").get<uint32_t>()) << cropped;
    }
  }
}

TEST(DecodeImage, RefusesEveryCutOffFile) {
  for (const char* kind : {"jpeg", "png"}) {
    const std::string whole = GoldenFile(kind, "RGB");
    for (size_t size = 0; size + 16 < whole.size(); size += 7) {
      EXPECT_FALSE(DecodeImage(std::string_view(whole).substr(0, size)).has_value()) << size;
    }
  }
}

TEST(DecodeImage, SurvivesDamagedFiles) {
  for (const char* kind : {"jpeg", "png"}) {
    const std::string whole = GoldenFile(kind, "RGB");
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x5a);
      const Result<Image> image = DecodeImage(damaged);
      if (image) {
        EXPECT_EQ(image->pixels.size(), image->width * image->height * 3);
      }
    }
  }
}

TEST(DecodeImage, SaysWhatIsNoImage) {
  EXPECT_EQ(DecodeImage("").error().what, "the file is empty");
  EXPECT_EQ(DecodeImage("GIF89a").error().what, "it is neither a JPEG nor a PNG file");
}

TEST(SampleRandom, DependsOnSeedEpochAndSampleOnly) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t epoch = 0; epoch < 10; ++epoch) {
      for (int64_t sample = 0; sample < 10; ++sample) {
        seen.insert(SampleRandom(seed, epoch, sample).Next());
        EXPECT_EQ(SampleRandom(seed, epoch, sample).Next(),
                  SampleRandom(seed, epoch, sample).Next());
      }
    }
  }
  EXPECT_EQ(seen.size(), 1000);
}

TEST(DrawShift, ReachesEveryPlaceEquallyOften) {
  const ImageOptions options{.random_crop_padding = 1, .random_flip = true};
  std::map<std::tuple<int64_t, int64_t, bool>, int> counts;
  for (int64_t sample = 0; sample < 18000; ++sample) {
    SampleRandom random(1, 2, sample);
    const Shift shift = DrawShift(options, random);
    ++counts[{shift.top, shift.left, shift.flip}];
  }
  ASSERT_EQ(counts.size(), 18);
  for (const auto& [shift, count] : counts) EXPECT_NEAR(count, 1000, 150);  // 5 deviations
}

TEST(RandomResizedCrop, TakesPartsOfAnyShapeOfImage) {
  for (const auto& [height, width] : {std::pair{40, 30}, {1, 50}, {300, 2}, {1, 1}}) {
    Image image{.height = height, .width = width, .pixels = {}};
    image.pixels.assign(height * width * 3, 77);
    for (int64_t sample = 0; sample < 50; ++sample) {
      SampleRandom random(0, 0, sample);
      const Image part = RandomResizedCrop(image, 9, random);
      EXPECT_EQ(part.pixels, std::vector<uint8_t>(9 * 9 * 3, 77));
    }
  }
}

// An IDX file: dimensions, then bytes.
std::string Idx(const std::vector<uint32_t>& sizes, const std::string& bytes) {
  std::string text = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(size >> shift & 0xff);
  }
  return text + bytes;
}

class IdxFiles : public testing::Test {
 protected:
  std::string Images(const std::string& bytes) const {
    return scratch_.Write("train-images-idx3-ubyte", bytes);
  }
  void Labels(const std::string& bytes) const { scratch_.Write("train-labels-idx1-ubyte", bytes); }

  const ScratchFolder scratch_;
};

TEST_F(IdxFiles, BecomeNormalizedNumbersAndClasses) {
  const std::string path = Images(Idx({3, 1, 2}, std::string("\x00\xff\x33\x66\x01\x02", 6)));
  Labels(Idx({3}, std::string("\x02\x00\x04", 3)));
  const auto data = OpenIdx({path}, {.mean = {0.5}, .std = {0.25}});
  EXPECT_EQ(data->size(), 3);
  EXPECT_THAT(data->shape().input, ElementsAre(1, 1, 2));
  EXPECT_EQ(data->shape().classes, 5);
  const Batch batch = data->Get(std::vector<int64_t>{1, 0});
  EXPECT_THAT(batch.inputs.sizes(), ElementsAre(2, 1, 1, 2));
  EXPECT_FLOAT_EQ(batch.inputs[0][0][0][0].item<float>(), -1.2F);
  EXPECT_FLOAT_EQ(batch.inputs[1][0][0][1].item<float>(), 2);
  EXPECT_EQ(batch.targets[0].item<int64_t>(), 0);
  EXPECT_EQ(batch.targets[1].item<int64_t>(), 2);
}

TEST(DescribeImages, SaysItInTheWordsOfTransformers) {
  const auto scaled =
      json::parse(DescribeImages({.size = 24, .mean = {0.5}, .std = {0.1, 0.2, 0.3}}, 3, 24, 24));
  EXPECT_EQ(scaled.at("size"), (json{{"shortest_edge", 24}}));
  EXPECT_EQ(scaled.at("crop_size"), (json{{"height", 24}, {"width", 24}}));
  EXPECT_EQ(scaled.at("image_mean"), (json{0.5, 0.5, 0.5}));
  EXPECT_EQ(scaled.at("image_std"), (json{0.1, 0.2, 0.3}));
  EXPECT_TRUE(scaled.at("do_resize") && scaled.at("do_center_crop") && scaled.at("do_normalize"));
  const auto plain = json::parse(DescribeImages({}, 1, 28, 20));
  EXPECT_EQ(plain.at("size"), (json{{"height", 28}, {"width", 20}}));
  EXPECT_FALSE(plain.at("do_resize") || plain.at("do_center_crop") || plain.at("do_normalize") ||
               plain.at("do_convert_rgb"));
}

TEST_F(IdxFiles, ThatDoNotFitAreRefused) {
  Labels(Idx({2}, "ab"));
  const auto what = [&](const std::string& images) {
    return ErrorOf([&] { OpenIdx({Images(images)}, {}); }).what;
  };
  EXPECT_THAT(what("hello"), HasSubstr("does not begin as an IDX file"));
  EXPECT_THAT(what(Idx({2, 1, 2}, "abc")), HasSubstr("announces 4 bytes, and 3 follow."));
  EXPECT_THAT(what(Idx({0xffffffff, 0xffffffff, 0xffffffff}, "abc")), HasSubstr("and 3 follow."));
  EXPECT_THAT(what(Idx({3, 1, 1}, "abc")), HasSubstr("has 2 labels for the 3 images"));
  EXPECT_THAT(what(Idx({0, 1, 1}, "")), HasSubstr("has 2 labels for the 0 images"));
  const std::string other = scratch_.Write("pictures", Idx({2, 1, 1}, "ab"));
  EXPECT_THAT(ErrorOf([&] { OpenIdx({other}, {}); }).what, HasSubstr("to find its labels by."));
}

TEST_F(IdxFiles, HaveTheClassesOfTheTrainingDataOrAsNamed) {
  const std::string path = Images(Idx({3, 1, 1}, "abc"));
  Labels(Idx({3}, std::string("\x02\x00\x04", 3)));
  EXPECT_EQ(OpenIdx({path}, {}, {.count = 10})->shape().classes, 10);
  const DataShape named =
      OpenIdx({path}, {}, {.count = 5, .names = {"a", "b", "c", "d", "e"}})->shape();
  EXPECT_EQ(named.classes, 5);
  EXPECT_EQ(named.labels.back(), "e");
  const Error error = ErrorOf([&] { OpenIdx({path}, {}, {.count = 4}); });
  const std::string labels = scratch_.Path("train-labels-idx1-ubyte");
  EXPECT_EQ(error.title, "UNKNOWN LABEL");
  EXPECT_EQ(error.where, labels);
  EXPECT_EQ(error.what, "Label 2 (from 0) of \"" + labels + "\" is 4; the 4 classes are 0 to 3.");
}

// Records of CIFAR whose pixels are all the record's number.
std::string CifarFile(const std::vector<std::string>& labels) {
  std::string text;
  for (size_t i = 0; i < labels.size(); ++i) {
    text += labels[i] + std::string(3072, static_cast<char>(i));
  }
  return text;
}

TEST(Cifar, ReadsBothKinds) {
  const ScratchFolder scratch;
  const std::string ten = scratch.Write("ten.bin", CifarFile({"\x03", "\x09"}));
  const auto ten_data = OpenCifar(Cifar::k10, {ten}, {});
  EXPECT_EQ(ten_data->shape().classes, 10);
  EXPECT_THAT(ten_data->shape().input, ElementsAre(3, 32, 32));
  EXPECT_TRUE(ten_data->shape().labels.empty());
  scratch.Write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(OpenCifar(Cifar::k10, {ten}, {})->shape().labels.at(9), "j");
  const Batch batch = ten_data->Get(std::vector<int64_t>{1});
  EXPECT_EQ(batch.targets.item<int64_t>(), 9);
  EXPECT_FLOAT_EQ(batch.inputs.max().item<float>(), 1.0F / 255);
  const std::string hundred = scratch.Write("hundred.bin", CifarFile({"\x13\x63"}));
  const Batch fine = OpenCifar(Cifar::k100, {hundred}, {})->Get(std::vector<int64_t>{0});
  EXPECT_EQ(fine.targets.item<int64_t>(), 99);
}

TEST(Cifar, RefusesOtherFiles) {
  const ScratchFolder scratch;
  const auto what = [&](const std::string& text) {
    const std::string path = scratch.Write("data.bin", text);
    return ErrorOf([&] { OpenCifar(Cifar::k10, {path}, {}); }).what;
  };
  EXPECT_THAT(what("abc"), HasSubstr("has 3 bytes, no multiple of the 3073"));
  EXPECT_THAT(what(CifarFile({"\x0a"})), HasSubstr("has label 10; CIFAR-10 has 0 to 9."));
  EXPECT_EQ(what(""), "The data files have no image.");
}

TEST(Cifar, ShiftsAndMirrorsByEpochAndSampleAlone) {
  const ScratchFolder scratch;
  std::string text(1, '\0');
  for (int i = 0; i < 3072; ++i) text += static_cast<char>(i % 251 + 1);
  const std::string path = scratch.Write("a.bin", text + text);
  const ImageOptions options{.random_crop_padding = 4, .random_flip = true, .seed = 3};
  const auto data = OpenCifar(Cifar::k10, {path}, options);
  const auto image = [&](const std::vector<int64_t>& indices, int64_t epoch, int64_t row) {
    return data->GetVaried(indices, epoch).inputs[row];
  };
  EXPECT_TRUE(at::equal(image({0, 1}, 5, 1), image({1}, 5, 0)));
  EXPECT_FALSE(at::equal(image({1}, 5, 0), image({1}, 6, 0)));
  EXPECT_FALSE(at::equal(image({0}, 5, 0), image({1}, 5, 0)));
  EXPECT_TRUE(at::equal(data->Get(std::vector<int64_t>{0}).inputs,
                        data->Get(std::vector<int64_t>{1}).inputs));
}

class Folder : public testing::Test {
 protected:
  Folder() {
    scratch_.Write("train/dog/a.jpg", GoldenFile("jpeg", "RGB"));
    scratch_.Write("train/cat/b.PNG", GoldenFile("png", "P"));
    scratch_.Write("train/cat/deep/c.jpeg", GoldenFile("jpeg", "L"));
    scratch_.Write("train/readme.txt", "none");
  }
  std::string Path(const std::string& name) const { return scratch_.Path(name); }

  const ScratchFolder scratch_;
};

TEST_F(Folder, TakesSubfoldersAsClassesInOrderOfTheirNames) {
  const ImageFolder data({.patterns = {Path("train")}});
  EXPECT_EQ(data.size(), 3);
  EXPECT_THAT(data.shape().labels, ElementsAre("cat", "dog"));
  EXPECT_THAT(data.shape().input, ElementsAre(3, 17, 23));
  const Batch batch = data.Get(std::vector<int64_t>{0, 1, 2});
  EXPECT_THAT(batch.inputs.sizes(), ElementsAre(3, 3, 17, 23));
  EXPECT_EQ(batch.targets[1].item<int64_t>(), 0);
  EXPECT_EQ(batch.targets[2].item<int64_t>(), 1);
  const Result<Image> image = DecodeImage(GoldenFile("jpeg", "RGB"));
  EXPECT_FLOAT_EQ(batch.inputs[2][1][16][22].item<float>() * 255,
                  static_cast<float>(image->pixels[(16 * 23 + 22) * 3 + 1]));
}

TEST_F(Folder, TakesTheFolderOfEachFileOfAPatternAsItsClass) {
  const ImageFolder data({.patterns = {Path("train/**")}});
  EXPECT_THAT(data.shape().labels, ElementsAre("cat", "deep", "dog"));
}

TEST_F(Folder, BringsImagesToOneSizeAlsoAtRandom) {
  const ImageFolder data({.patterns = {Path("train")},
                          .image = {.size = 8, .random_flip = true, .random_resized_crop = true}});
  const std::vector<int64_t> all = {0, 1, 2};
  EXPECT_THAT(data.Get(all).inputs.sizes(), ElementsAre(3, 3, 8, 8));
  const at::Tensor varied = data.GetVaried(all, 1).inputs;
  EXPECT_THAT(varied.sizes(), ElementsAre(3, 3, 8, 8));
  EXPECT_TRUE(at::equal(varied, data.GetVaried(all, 1).inputs));
  EXPECT_FALSE(at::equal(varied, data.GetVaried(all, 2).inputs));
}

TEST_F(Folder, LeavesOutWhatDoesNotDecodeIfAskedTo) {
  const auto open = [&] {
    return ImageFolder(
        {.patterns = {Path("train")}, .image = {.size = 8}, .skip_bad_images = true});
  };
  EXPECT_EQ(open().size(), 3);
  EXPECT_THAT(open().Notes(), testing::IsEmpty());
  scratch_.Write("train/cat/b.PNG", GoldenFile("png", "P").substr(0, 60));
  scratch_.Write("train/cat/empty.png", "");
  const ImageFolder data = open();
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(data.Get(std::vector<int64_t>{0, 1}).targets[1].item<int64_t>(), 1);
  EXPECT_THAT(data.Notes(),
              ElementsAre(HasSubstr("2 images skipped, the first: \"" + Path("train/cat/b.PNG"))));
  scratch_.Write("train/cat/deep/c.jpeg", "none");
  scratch_.Write("train/dog/a.jpg", "none");
  EXPECT_EQ(ErrorOf(open).title, "IMAGE CANNOT BE DECODED");
}

TEST_F(Folder, NamesTheFileThatIsAtFault) {
  EXPECT_THAT(ErrorOf([&] {
                ImageFolder({.patterns = {Path("train")}, .labels = {"cat", "dogs"}});
              }).what,
              HasSubstr("is of class \"dog\", which is none of the classes \"cat\", \"dogs\"; "
                        "\"dogs\" comes close"));
  const ImageFolder data({.patterns = {Path("train")}, .image = {.size = 8}});
  scratch_.Write("train/dog/a.jpg", "\xff\xd8\xff and no more");
  const Error error = ErrorOf([&] { data.Get(std::vector<int64_t>{2}); });
  EXPECT_EQ(error.title, "IMAGE CANNOT BE DECODED");
  EXPECT_EQ(error.where, Path("train/dog/a.jpg"));
  std::filesystem::remove(Path("train/dog/a.jpg"));
  EXPECT_THAT(ErrorOf([&] { data.Get(std::vector<int64_t>{2}); }).what,
              HasSubstr("No such file or directory"));
  std::filesystem::create_directories(Path("empty"));
  EXPECT_THROW(ImageFolder({.patterns = {Path("empty")}}), Failure);
}

}  // namespace
}  // namespace ddprun::trainer
