// The docs page and the JSON Schema are generated from the key table.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "trainer/config/config_text.h"
#include "trainer/config/keys.h"

namespace ddprun::trainer {
namespace {

TEST(ConfigDoc, IsWhatTheTableSays) {
  std::ifstream file(DDPRUN_SOURCE_DIR "/docs/config.md", std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == WriteConfigDoc())
      << "docs/config.md is out of date: ddp-trainer config-doc > docs/config.md";
}

TEST(ConfigDoc, ExplainsAKeyByItsPathItsNameAndWhatOthersCallIt) {
  const std::string text = ExplainKey("optimizer.eps");
  EXPECT_EQ(
      text,
      "optimizer.eps\n"
      "  Added to the denominator of the update. Only for optimizer.type \"adamw\" or \"adam\" or\n"
      "  \"adagrad\".\n"
      "  Accepted: a number above 0.\n"
      "  Default: 1e-08; adagrad: 1e-10.\n"
      "  Elsewhere: adam_epsilon (Hugging Face), epsilon (Keras), adam_eps (PyTorch examples).\n");
  EXPECT_EQ(ExplainKey("eps"), text);
  EXPECT_EQ(ExplainKey("adam_epsilon"), text);
  EXPECT_NE(ExplainKey("seed").find("run.seed\n"), std::string::npos);
  EXPECT_NE(ExplainKey("optimizer.amsgrad").find("not there yet"), std::string::npos);
  EXPECT_EQ(ExplainKey("zebra"), "");
}

TEST(ConfigSchema, DescribesEveryKeyWithTypeRangeAndDefault) {
  const auto schema = nlohmann::json::parse(WriteSchema());
  for (const Key& key : AllKeys()) {
    const auto& section = schema["properties"][std::string(key.section)];
    EXPECT_EQ(section["additionalProperties"], false);
    EXPECT_TRUE(section["properties"].contains(std::string(key.name))) << key.Path();
  }
  const auto& training = schema["properties"]["training"]["properties"];
  EXPECT_EQ(training["max_grad_norm"]["type"], "number");
  EXPECT_EQ(training["max_grad_norm"]["minimum"], 0);
  EXPECT_EQ(training["max_grad_norm"]["default"], 1);
  EXPECT_EQ(training["per_device_eval_batch_size"]["type"],
            nlohmann::json::parse(R"(["integer", "null"])"));
  EXPECT_EQ(schema["properties"]["optimizer"]["properties"]["type"]["enum"],
            nlohmann::json::parse(R"(["adamw", "adam", "sgd", "adagrad", "lion"])"));
  EXPECT_EQ(schema["required"], nlohmann::json::parse(R"(["model"])"));
}

}  // namespace
}  // namespace ddprun::trainer
