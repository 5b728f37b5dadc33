#include "trainer/state/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/failure.h"
#include "tests/golden/golden_file.h"
#include "tests/trainer/data/scratch_folder.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

class SafetensorsTest : public testing::Test {
 protected:
  std::string WriteRaw(const std::string& header, const std::string& data) const {
    const uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return folder_.Write("raw.safetensors", bytes + header + data);
  }

  // Returns the reader's error about a file with this header and data.
  std::string Complaint(const std::string& header, const std::string& data) const {
    return ComplaintAbout(WriteRaw(header, data));
  }

  static std::string ComplaintAbout(const std::string& path) {
    try {
      const SafetensorsFile file(path);
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return "no complaint";
  }

  ScratchFolder folder_;
};

TEST_F(SafetensorsTest, GivesBackWhatItWrote) {
  const std::string path = folder_.Path("w.safetensors");
  const at::Tensor base = at::randn({3, 5});
  const NamedTensors tensors = {
      {"f16", base.to(at::kHalf)},       {"odd.bool", base.narrow(1, 0, 1).gt(0)},
      {"f32.transposed", base.t()},      {"bf16", base.to(at::kBFloat16)},
      {"i64", at::arange(7, at::kLong)}, {"scalar", base.sum()},
      {"empty", at::zeros({0, 4})}};
  WriteSafetensors(path, tensors, {{"format", "pt"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_THAT(file.entries(), SizeIs(tensors.size()));
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = file.Get(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.equal(tensor)) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.Path()), {}), 1);
}

TEST_F(SafetensorsTest, PadsTheHeaderSoThatTensorsAreAligned) {
  const std::string path = folder_.Path("w.safetensors");
  WriteSafetensors(path, {{"a", at::zeros({1}, at::kByte)}, {"b", at::zeros({1}, at::kDouble)}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.entries().at("b").begin % 8, 0);
  EXPECT_EQ(file.entries().at("a").begin % 8, 0);
}

TEST_F(SafetensorsTest, ReadsFilesOfThePythonLibrary) {
  const SafetensorsFile file(golden::Path("gpt_init/model.safetensors"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.Get("transformer.wte.weight").size(0), 256);
}

TEST_F(SafetensorsTest, KeepsTensorsAfterTheFileObjectIsGone) {
  const std::string path = folder_.Path("w.safetensors");
  const at::Tensor tensor = at::randn({100});
  WriteSafetensors(path, {{"a", tensor}});
  const at::Tensor read = SafetensorsFile(path).Get("a");
  EXPECT_TRUE(read.equal(tensor));
}

TEST_F(SafetensorsTest, ReadsATensorThatIsNotAligned) {
  const float value = 1.5F;
  const std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
  const std::string path = WriteRaw(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                    R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                                    "x" + bytes);
  EXPECT_EQ(SafetensorsFile(path).Get("b").item<float>(), value);
}

TEST_F(SafetensorsTest, ReplacesAnOldFileOnlyWhenTheNewOneIsComplete) {
  const std::string path = folder_.Path("w.safetensors");
  WriteSafetensors(path, {{"a", at::zeros({2})}});
  const at::Tensor one = at::zeros({1});
  EXPECT_THROW(WriteSafetensors(path, {{"b", one}, {"b", one}}), Failure);
  EXPECT_TRUE(SafetensorsFile(path).entries().contains("a"));
  EXPECT_THROW(WriteSafetensors(folder_.Path("none/w.safetensors"), {{"b", one}}), Failure);
}

TEST_F(SafetensorsTest, NamesTensorAndShapeThatDoNotFitTheBytes) {
  EXPECT_THAT(
      Complaint(R"({"w.x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,4]}})", "abcd"),
      AllOf(HasSubstr("\"w.x\""), HasSubstr("[2, 3]"), HasSubstr("F32"), HasSubstr("4 bytes")));
  // 2^62 * 4 bytes overflow to 0.
  EXPECT_THAT(
      Complaint(R"({"w":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", ""),
      HasSubstr("has 0 bytes"));
}

TEST_F(SafetensorsTest, RefusesBrokenDescriptions) {
  EXPECT_THAT(Complaint("[]", ""), HasSubstr("no JSON object"));
  EXPECT_THAT(Complaint("{", ""), HasSubstr("no JSON object"));
  EXPECT_THAT(Complaint(R"({"w":3})", ""), HasSubstr("\"w\" has no description"));
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"F99","shape":[],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("unknown dtype \"F99\""));
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("no shape"));
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "abcd"),
              HasSubstr("no shape"));
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4]}})", "abcd"),
              HasSubstr("no pair of data_offsets"));
  EXPECT_THAT(Complaint(R"({"__metadata__":{"a":1}})", ""), HasSubstr("more than strings"));
}

TEST_F(SafetensorsTest, RefusesOffsetsOutsideTheFileOverlapsAndGaps) {
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "abcd"),
              HasSubstr("lies at bytes 4 to 8 of 4"));
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[3,2]}})", "abcd"),
              HasSubstr("lies at bytes 3 to 2"));
  EXPECT_THAT(Complaint(R"({"v":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                        R"("w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                        "abcd"),
              HasSubstr("\"w\" overlaps"));
  EXPECT_THAT(Complaint(R"({"v":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                        "abcd"),
              HasSubstr("\"w\" leaves a gap"));
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "abcd"),
              HasSubstr("2 bytes follow"));
}

TEST_F(SafetensorsTest, RefusesATensorThatComesTwice) {
  EXPECT_THAT(Complaint(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                        "a"),
              HasSubstr("\"w\" comes twice"));
}

TEST_F(SafetensorsTest, RefusesFilesThatWereCutShort) {
  const std::string path = folder_.Path("w.safetensors");
  WriteSafetensors(path, {{"a", at::randn({100})}});
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  for (int64_t left = size - 1; left >= 0; left -= 13) {
    std::filesystem::resize_file(path, left);
    EXPECT_THAT(ComplaintAbout(path), HasSubstr("no valid safetensors file")) << left << " bytes";
  }
}

TEST_F(SafetensorsTest, SaysThatAFileIsMissingOrNoFile) {
  EXPECT_THAT(ComplaintAbout(folder_.Path("none")), HasSubstr("No such file"));
  EXPECT_THAT(ComplaintAbout(folder_.Path()), HasSubstr("no regular file"));
}

TEST_F(SafetensorsTest, AFileThatShrinksWhileOpenIsAnError) {
  const std::string path = folder_.Path("w.safetensors");
  WriteSafetensors(path, {{"a", at::zeros({4096})}});
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, 5000);
  EXPECT_THROW(file.Get("a"), Failure);
}

}  // namespace
}  // namespace ddprun::trainer
