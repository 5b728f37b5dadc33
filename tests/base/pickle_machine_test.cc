#include "base/pickle_machine.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/pickled.h"

namespace ddprun {
namespace {

using std::string_literals::operator""s;
using Kind = PickleValue::Kind;

constexpr size_t kMaxValues = 1000;

std::string ErrorOf(const std::string& bytes) {
  try {
    PickleMachine(bytes, kMaxValues).Run();
  } catch (const BadPickle& bad) {
    return bad.what;
  }
  return "";
}

TEST(PickleMachine, HasDictsListsTextsAndNumbers) {
  const std::string bytes = Pickled(PDict({{"text", PText("a")},
                                           {"list", PList({PInt(-3), PBool(true), "N"})},
                                           {"bytes", "K\xff"s},
                                           {"short", "M\x01\x02"s},
                                           {"int", "J\xfe\xff\xff\xff"s},
                                           {"float", "G" + std::string(8, '\x40')}}));
  PickleMachine machine(bytes, kMaxValues);
  const PickleValue& root = machine.Run();
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

TEST(PickleMachine, HasTuplesAndRepeatedValues) {
  const std::string bytes = "\x80\x02"s + PText("a") + "q\0h\0j\0\0\0\0\x87."s;
  PickleMachine machine(bytes, kMaxValues);
  const PickleValue& root = machine.Run();
  ASSERT_EQ(root.items.size(), 3U);
  EXPECT_EQ(root.items[2]->text, "a");
  const std::string marked = "\x80\x02(K\1K\2t."s;
  EXPECT_EQ(PickleMachine(marked, kMaxValues).Run().items.size(), 2U);
}

TEST(PickleMachine, RefusesWhatNamesAFunction) {
  // os.system("true"), as pickle.dumps writes it for an object with __reduce__.
  EXPECT_EQ(ErrorOf("\x80\x02"s + "cos\nsystem\n" + "(" + PText("true") + "tR."),
            "it names \"os.system\", a class or function");
}

TEST(PickleMachine, RefusesDamage) {
  EXPECT_EQ(ErrorOf(""), "it ends in the middle");
  EXPECT_EQ(ErrorOf("\x80\x06N."s), "its protocol is newer than 5");
  EXPECT_EQ(ErrorOf("i"), "it has the instruction 105, which is not needed here");
  EXPECT_EQ(ErrorOf("X\xff\xff\xff\xff"s), "it ends in the middle");
  EXPECT_EQ(ErrorOf("."), "it takes more values than it has");
  EXPECT_EQ(ErrorOf("K\1\x86."s), "it takes more values than it has");
  EXPECT_EQ(ErrorOf("K\1(\x85."s), "it takes more values than it has");
  EXPECT_EQ(ErrorOf("]e."), "it takes more values than it has");
  EXPECT_EQ(ErrorOf("K\1(K\2e."s), "it adds to something else than a list or dict");
  EXPECT_EQ(ErrorOf("}(K\1u."s), "it adds to something else than a list or dict");
  EXPECT_EQ(ErrorOf("h\0."s), "it refers to a value that it does not have");
  EXPECT_EQ(ErrorOf("NN."), "bytes follow its end");
  EXPECT_EQ(ErrorOf("N.N"), "bytes follow its end");
  EXPECT_EQ(ErrorOf("\x8a\x09"s + std::string(9, '\1') + "."),
            "it has a number of more than 64 bits");
}

TEST(PickleMachine, EveryBeginningOfAPickleIsRefused) {
  const std::string whole = Pickled(PDict({{"a", PList({PInt(1), PText("b")})}}));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(ErrorOf(whole.substr(0, length)), "") << length;
  }
  EXPECT_EQ(ErrorOf(whole), "");
}

TEST(PickleMachine, MayContainItself) {
  const std::string bytes = "]q\0(h\0e."s;  // a list with itself
  PickleMachine machine(bytes, kMaxValues);
  const PickleValue& root = machine.Run();
  EXPECT_EQ(root.items[0], &root);
}

TEST(PickleMachine, HasALimitOfValues) {
  EXPECT_EQ(ErrorOf(std::string(kMaxValues + 1, 'N') + "."), "it has too many values");
}

}  // namespace
}  // namespace ddprun
