// For any bytes the answer is a Config or an Error, and comes soon.
#include <gtest/gtest.h>

#include "tests/trainer/config/config_text_fixture.h"

namespace ddprun::trainer {
namespace {

const std::string kGood = R"(// comment
{ "model": { "type": "gpt", "hidden_size": 64, "dropout": 1e-1, },
	"data": { "train_files": ["${HOME}/a", "日本\n\u00e9"], "shuffle": false, /* x */ },
  "optimizer": { "betas": [0.9, 0.95], "type": "adamw" },
}
)";

// Every answer is rendered: the carets are made from the hostile bytes, too.
void MustAnswer(const std::string& text) {
  Environment environment;
  environment.Set("HOME", "/h");
  const Result<Config> config = Read({text, {}, environment});
  if (!config.has_value()) {
    EXPECT_FALSE(Render(config.error()).empty());
    EXPECT_EQ(config.error().code, Code::kUsage);
  }
}

TEST(HostileConfig, TheConfigUnderTestIsGood) {
  Environment environment;
  environment.Set("HOME", "/h");
  EXPECT_EQ(Complaint({kGood, {}, environment}), "");
}

TEST(HostileConfig, CutAtEveryByte) {
  for (size_t size = 0; size <= kGood.size(); ++size) MustAnswer(kGood.substr(0, size));
}

TEST(HostileConfig, EveryByteReplaced) {
  for (size_t i = 0; i < kGood.size(); ++i) {
    for (const char byte : {'\0', '\n', '"', '\\', '{', '}', '[',    ']',    ',',    ':',
                            '/',  '*',  '$', '-',  '9', 'e', '\x1b', '\x80', '\xC3', '\xFF'}) {
      std::string text = kGood;
      text[i] = byte;
      MustAnswer(text);
    }
  }
}

TEST(HostileConfig, EveryByteRemovedOrDoubled) {
  for (size_t i = 0; i < kGood.size(); ++i) {
    std::string text = kGood;
    MustAnswer(text.erase(i, 1));
    text = kGood;
    MustAnswer(text.insert(i, 1, kGood[i]));
  }
}

TEST(HostileConfig, EveryOverrideCutAndBroken) {
  const std::string good = R"(data.train_files=["a${HOME}b", "c"])";
  for (size_t i = 0; i <= good.size(); ++i) {
    const Result<Config> config = Read({kGood, {good.substr(0, i), good.substr(i)}});
    if (!config.has_value()) {
      EXPECT_FALSE(Render(config.error()).empty());
    }
  }
}

TEST(HostileConfig, AMegabyteOfOneKind) {
  constexpr size_t kSize = 1000000;
  MustAnswer(std::string(kSize, '['));
  MustAnswer(std::string(kSize, '/'));
  MustAnswer("\"" + std::string(kSize, 'a'));
  MustAnswer("{\"" + std::string(kSize, 'a') + "\": 1}");
  MustAnswer("{\"model\": {\"type\": \"" + std::string(kSize, 'a') + "\"}}");
  MustAnswer("{\"run\": {\"seed\": " + std::string(kSize, '9') + "}}");
  MustAnswer("{\"run\": {\"name\": \"${" + std::string(kSize, 'a') + "}\"}}");
}

TEST(HostileConfig, AHundredThousandMistakes) {
  std::string unknown = "{";
  std::string duplicate = "{";
  for (int i = 0; i < 100000; ++i) {
    unknown += "\"k" + std::to_string(i) + "\":1,";
    duplicate += "\"a\":1,";
  }
  MustAnswer(unknown + "}");
  MustAnswer(duplicate + "}");
}

}  // namespace
}  // namespace ddprun::trainer
