#include "trainer/state/torch_file.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/failure.h"
#include "tests/trainer/data/scratch_folder.h"

namespace ddprun::trainer {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

LazyTensor Lazy(const std::string& name, const at::Tensor& tensor) {
  return {
      .name = name, .dtype = tensor.scalar_type(), .shape = tensor.sizes().vec(), .read = [tensor] {
        return tensor;
      }};
}

std::string WhatIsWrongWith(const std::string& path) {
  try {
    const TorchFile file(path);
    for (const auto& [name, entry] : file.entries()) file.Get(name);
  } catch (const Failure& failure) {
    return failure.error().what;
  }
  return "nothing";
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TorchFile, GivesBackWhatItWrote) {
  const ScratchFolder folder;
  const std::string path = folder.Path("w.pt");
  const at::Tensor base = at::randn({3, 5});
  const NamedTensors tensors = {{"f16", base.to(at::kHalf)},       {"bool", base.gt(0)},
                                {"transposed", base.t()},          {"bf16", base.to(at::kBFloat16)},
                                {"i64", at::arange(7, at::kLong)}, {"scalar", base.sum()},
                                {"empty", at::zeros({0, 4})},      {"f64", base.to(at::kDouble)}};
  std::vector<LazyTensor> lazy;
  for (const auto& [name, tensor] : tensors) lazy.push_back(Lazy(name, tensor));
  lazy.push_back(Lazy("tied", base.sum()));
  lazy.back().same_as = "scalar";
  lazy.back().read = nullptr;  // never asked for
  const std::map<std::string, PickledValue> values = {
      {"step", int64_t{1} << 40}, {"lr", 1e-4}, {"on", true}, {"name", std::string("gpt")}};
  WriteTorchFile(path, lazy, values);

  const TorchFile file(path);
  EXPECT_EQ(file.entries().size(), lazy.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = file.Get(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.equal(tensor)) << name;
  }
  EXPECT_TRUE(file.Get("tied").equal(file.Get("scalar")));
  EXPECT_EQ(file.entries().at("tied").begin, file.entries().at("scalar").begin);
  EXPECT_EQ(file.values(), values);
}

TEST(TorchFile, LeavesNothingWhenATensorCannotBeRead) {
  const ScratchFolder folder;
  LazyTensor lazy = Lazy("a", at::zeros({2}));
  lazy.read = []() -> at::Tensor { throw std::runtime_error("gone"); };
  EXPECT_THROW(WriteTorchFile(folder.Path("w.pt"), {lazy}), std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.Path()));
}

TEST(TorchFile, IsRefusedWhereverItIsCut) {
  const ScratchFolder folder;
  WriteTorchFile(folder.Path("w.pt"), {Lazy("a", at::randn({4, 4})), Lazy("b", at::randn({3}))});
  const std::string whole = BytesOf(folder.Path("w.pt"));
  for (size_t size = 0; size < whole.size(); size += 11) {
    const std::string path = folder.Write("cut.pt", whole.substr(0, size));
    EXPECT_NE(WhatIsWrongWith(path), "nothing") << size << " of " << whole.size() << " bytes";
  }
}

// Fields that nobody needs, as times and padding, may change.
TEST(TorchFile, NeverGivesOtherTensorsAfterAFlippedBit) {
  const ScratchFolder folder;
  const at::Tensor a = at::randn({4, 4});
  const at::Tensor b = at::arange(3);
  WriteTorchFile(folder.Path("w.pt"), {Lazy("a", a), Lazy("b", b)});
  const std::string whole = BytesOf(folder.Path("w.pt"));
  int refused = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); bit += 29) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    const std::string path = folder.Write("flipped.pt", bytes);
    if (WhatIsWrongWith(path) != "nothing") {
      ++refused;
      continue;
    }
    const TorchFile file(path);
    ASSERT_EQ(file.entries().size(), 2U) << "bit " << bit;
    EXPECT_TRUE(file.Get("a").equal(a)) << "bit " << bit;
    EXPECT_TRUE(file.Get("b").equal(b)) << "bit " << bit;
  }
  EXPECT_GT(refused, 50);
}

TEST(TorchFile, SaysWhatOtherFilesAre) {
  const ScratchFolder folder;
  EXPECT_THAT(WhatIsWrongWith(folder.Write("old.pt", "\x80\x02\x8a\x0al\xfc")),
              HasSubstr("it has the format of PyTorch before 1.6"));
  EXPECT_THAT(WhatIsWrongWith(folder.Write("text.pt", "weights")),
              HasSubstr("it does not begin as one"));
  EXPECT_THAT(WhatIsWrongWith(folder.Path("none.pt")), HasSubstr("cannot be read"));
  EXPECT_FALSE(TorchFile::IsTorchFile(folder.Path("text.pt")));
  EXPECT_TRUE(TorchFile::IsTorchFile(folder.Path("old.pt")));
}

std::string Complaint(const std::string& pickle) {
  const auto state = ReadPickledState(pickle);
  return state.has_value() ? "nothing" : state.error().what;
}

// "X" and its length.
std::string Text(const std::string& text) {
  return "X" + std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
}

TEST(TorchPickle, RunsNothing) {
  EXPECT_THAT(Complaint("\x80\x02"
                        "cos\nsystem\n" +
                        Text("touch /tmp/x") + "\x85R."),
              HasSubstr("\"os.system\""));
  EXPECT_THAT(Complaint("cbuiltins\neval\n" + Text("1") + "\x85R."), HasSubstr("builtins.eval"));
  EXPECT_THAT(Complaint(Text("os") + Text("system") + "\x93" + Text("ls") + "\x85R."),
              HasSubstr("\"os.system\""));
  EXPECT_THAT(Complaint("(ios\nsystem\n."), HasSubstr("instruction 105"));
}

TEST(TorchPickle, HasBounds) {
  const std::string zero(1, '\0');
  EXPECT_THAT(Complaint("}q" + zero + Text("a") + "h" + zero + "s."), HasSubstr("go too deep"));
  // Each list holds the one before it twice: 2^200 numbers.
  std::string bomb = "}" + Text("a") + "K\x01";
  for (char i = 0; i < 100; ++i) {
    bomb += "q" + std::string(1, i) + "]" + "h" + std::string(1, i) + "a" + "h" +
            std::string(1, i) + "a";
  }
  EXPECT_THAT(Complaint(bomb + "s."), HasSubstr("it "));
  EXPECT_THAT(Complaint(std::string(200, ']') + "."), HasSubstr("follow its end"));
  EXPECT_THAT(Complaint("X\xff\xff\xff\xff"), HasSubstr("ends in the middle"));
  EXPECT_THAT(Complaint("\x8a\x09" + std::string(9, '\x7f') + "."), HasSubstr("64 bits"));
  EXPECT_THAT(Complaint("h\x05."), HasSubstr("does not have"));
  EXPECT_THAT(Complaint("R."), HasSubstr("more values than it has"));
  EXPECT_THAT(Complaint(""), HasSubstr("ends in the middle"));
  EXPECT_THAT(Complaint("]."), HasSubstr("no dict"));
}

TEST(TorchPickle, JoinsNamesByDots) {
  const std::string bytes = "}(" + Text("m") + "}" + Text("w") + "\x88s" + Text("l") + "](K\x05G" +
                            "?\xf0" + std::string(6, '\0') + "eK\x07N" + "u.";
  const auto state = ReadPickledState(bytes);
  ASSERT_TRUE(state.has_value()) << state.error().what;
  EXPECT_THAT(state->values, UnorderedElementsAre(Pair("m.w", PickledValue(true)),
                                                  Pair("l.0", PickledValue(int64_t{5})),
                                                  Pair("l.1", PickledValue(1.0))));
  EXPECT_THAT(state->sections, UnorderedElementsAre("m", "l"));
}

}  // namespace
}  // namespace ddprun::trainer
