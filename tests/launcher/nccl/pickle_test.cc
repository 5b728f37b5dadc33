#include "launcher/nccl/pickle.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/launcher/nccl/pickled.h"

namespace ddprun::launcher {
namespace {

using std::string_literals::operator""s;
using Kind = PickleValue::Kind;

std::string ErrorOf(const std::string& bytes) {
  const Result<Pickle> pickle = Pickle::Read(bytes);
  return pickle.has_value() ? "" : pickle.error().what;
}

TEST(Pickle, HasDictsListsTextsAndNumbers) {
  const std::string bytes = Pickled(PDict({{"text", PText("a")},
                                           {"list", PList({PInt(-3), PBool(true), "N"})},
                                           {"bytes", "K\xff"s},
                                           {"short", "M\x01\x02"s},
                                           {"int", "J\xfe\xff\xff\xff"s},
                                           {"float", "G" + std::string(8, '\x40')}}));
  const Result<Pickle> pickle = Pickle::Read(bytes);
  ASSERT_TRUE(pickle.has_value()) << pickle.error().what;
  const PickleValue& root = pickle->root();
  EXPECT_EQ(root["text"].text, "a");
  ASSERT_EQ(root["list"].items.size(), 3U);
  EXPECT_EQ(root["list"].items[0]->integer, -3);
  EXPECT_EQ(root["list"].items[1]->integer, 1);
  EXPECT_EQ(root["list"].items[2]->kind, Kind::kNone);
  EXPECT_EQ(root["bytes"].integer, 255);
  EXPECT_EQ(root["short"].integer, 513);
  EXPECT_EQ(root["int"].integer, -2);
  EXPECT_EQ(root["float"].kind, Kind::kFloat);
  EXPECT_EQ(root["absent"].kind, Kind::kNone);
  EXPECT_EQ(root["text"]["no dict"].kind, Kind::kNone);
}

TEST(Pickle, HasTuplesAndRepeatedValues) {
  const std::string bytes = "\x80\x02"s + PText("a") + "q\0h\0j\0\0\0\0\x87."s;
  const Result<Pickle> pickle = Pickle::Read(bytes);
  ASSERT_TRUE(pickle.has_value()) << pickle.error().what;
  ASSERT_EQ(pickle->root().items.size(), 3U);
  EXPECT_EQ(pickle->root().items[2]->text, "a");
  EXPECT_EQ(Pickle::Read("\x80\x02(K\1K\2t."s)->root().items.size(), 2U);
}

TEST(Pickle, RefusesWhatNamesAFunction) {
  // os.system("true"), as pickle.dumps writes it for an object with __reduce__.
  EXPECT_EQ(ErrorOf("\x80\x02"s + "cos\nsystem\n" + "(" + PText("true") + "tR."),
            "it has the instruction 99, which PyTorch's flight recorder does not use");
}

TEST(Pickle, RefusesDamage) {
  EXPECT_EQ(ErrorOf(""), "it ends in the middle");
  EXPECT_EQ(ErrorOf("\x80\x04N."s), "it is not of pickle's protocol 2");
  EXPECT_EQ(ErrorOf("X\xff\xff\xff\xff"s), "it ends in the middle");
  EXPECT_EQ(ErrorOf("."), "it takes more values than it has");
  EXPECT_EQ(ErrorOf("K\1\x86."s), "it takes more values than it has");
  EXPECT_EQ(ErrorOf("K\1(\x85."s), "it takes more values than it has");
  EXPECT_EQ(ErrorOf("]e."), "it lacks a mark");
  EXPECT_EQ(ErrorOf("K\1(K\2e."s), "it adds to what is no container");
  EXPECT_EQ(ErrorOf("}(K\1u."s), "a key has no value");
  EXPECT_EQ(ErrorOf("Nq\1."s), "its memo has gaps");
  EXPECT_EQ(ErrorOf("h\0."s), "it repeats a value that it does not have");
  EXPECT_EQ(ErrorOf("NN."), "bytes follow its end");
  EXPECT_EQ(ErrorOf("N.N"), "bytes follow its end");
  EXPECT_EQ(ErrorOf("\x8a\x09"s + std::string(9, '\1') + "."),
            "it has an integer of a size that is not supported");
}

TEST(Pickle, EveryBeginningOfAPickleIsRefused) {
  const std::string whole = Pickled(PDict({{"a", PList({PInt(1), PText("b")})}}));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(ErrorOf(whole.substr(0, length)), "") << length;
  }
  EXPECT_EQ(ErrorOf(whole), "");
}

TEST(Pickle, MayContainItself) {
  const std::string bytes = "]q\0(h\0e."s;  // a list with itself
  const Result<Pickle> pickle = Pickle::Read(bytes);
  ASSERT_TRUE(pickle.has_value()) << pickle.error().what;
  EXPECT_EQ(pickle->root().items[0], &pickle->root());
}

TEST(Pickle, HasALimitOfValues) {
  EXPECT_EQ(ErrorOf(std::string(2'000'001, 'N') + "."), "it has too many values");
}

}  // namespace
}  // namespace ddprun::launcher
