#include "trainer/job/open_model.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/config/config_text.h"
#include "trainer/config/read_config.h"
#include "trainer/models/pretrained.h"

namespace ddprun::trainer {
namespace {

Config ConfigFrom(const std::string& text) {
  return ValueOrThrow(
      ReadConfigText({Source::Kind::kFile, "train.json", text}, {}, {{}, "/", "/"}));
}

// A run that goes on has the resolved config of its first start, in which every key has a value.
TEST(OpenModel, OfTheResolvedConfigIsTheSame) {
  const ScratchFolder folder;
  GptOptions gpt{TransformerOptions{.vocab_size = 256,
                                    .max_position_embeddings = 16,
                                    .hidden_size = 8,
                                    .num_hidden_layers = 1,
                                    .num_attention_heads = 2,
                                    .intermediate_size = 16,
                                    .attention_dropout = 0.25}};
  gpt.embedding_dropout = 0.5;
  SavePretrained(*MakeModel(gpt), folder.Path("gpt"));
  nlohmann::json config = {
      {"model", {{"type", "gpt"}, {"name_or_path", folder.Path("gpt")}}},
      {"data", {{"train_files", {folder.Write("a.txt", "text")}}, {"max_seq_length", 8}}}};
  for (const bool of_config : {false, true}) {
    if (of_config) config["model"]["dropout"] = 0.1;
    Config first = ConfigFrom(config.dump());
    const ModelOptions opened = OpenModel(first);
    const auto& options = std::get<GptOptions>(opened);
    EXPECT_EQ(options.dropout, of_config ? 0.1 : 0);
    EXPECT_EQ(options.embedding_dropout, of_config ? 0.1 : 0.5);
    EXPECT_EQ(options.attention_dropout, of_config ? 0.1 : 0.25);
    Config resolved = ConfigFrom(WriteResolvedConfig(first));
    EXPECT_EQ(OpenModel(resolved), opened);
  }
}

}  // namespace
}  // namespace ddprun::trainer
