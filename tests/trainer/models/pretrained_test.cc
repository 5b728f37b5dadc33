#include "trainer/models/pretrained.h"

#include <ATen/Context.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "tests/base/error_of.h"
#include "tests/trainer/data/scratch_folder.h"
#include "trainer/state/safetensors.h"
#include "trainer/state/torch_file.h"

namespace ddprun::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const MlpOptions kMlp{.sizes = {4, 3, 2}, .activation = Activation::kGelu};
const TransformerOptions kTwoLayers{.vocab_size = 40,
                                    .max_position_embeddings = 8,
                                    .hidden_size = 16,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .intermediate_size = 24};
const GptOptions kGpt{kTwoLayers};

BertOptions ClassifyingBert() {
  BertOptions options{kTwoLayers};
  options.num_labels = 3;
  options.labels = {"no", "maybe", "yes"};
  return options;
}
const BertOptions kBert = ClassifyingBert();

class PretrainedTest : public testing::Test {
 protected:
  bool Exists(const std::string& name) const { return std::filesystem::exists(folder_.Path(name)); }

  std::string Complaint(Model& model, const std::string& path) const {
    try {
      LoadWeights(model, path);
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return "no complaint";
  }

  // Returns the reader's error about this config.json.
  std::string ConfigComplaint(const std::string& config) const {
    folder_.Write("config.json", config);
    try {
      ReadModelOptions(folder_.Path());
    } catch (const Failure& failure) {
      return failure.error().what;
    }
    return "no complaint";
  }

  NamedTensors TensorsOf(const Model& model) const {
    NamedTensors tensors;
    for (const auto& parameter : model.named_parameters()) {
      tensors.emplace_back(parameter.key(), parameter.value());
    }
    return tensors;
  }

  void ExpectEqualParameters(const Model& a, const Model& b) const {
    const auto other = b.named_parameters();
    for (const auto& parameter : a.named_parameters()) {
      EXPECT_TRUE(parameter.value().equal(other[parameter.key()])) << parameter.key();
    }
  }

  ScratchFolder folder_;
};

TEST_F(PretrainedTest, BringsAModelBackFromItsFolder) {
  for (const ModelOptions& options : {ModelOptions(kMlp), ModelOptions(kGpt)}) {
    const auto model = MakeModel(options);
    SavePretrained(*model, folder_.Path("deep/" + TypeOf(options)));
    const auto read = ReadModelOptions(folder_.Path("deep/" + TypeOf(options)));
    const auto copy = MakeModel(read, {}, /*initialize=*/false);
    LoadWeights(*copy, folder_.Path("deep/" + TypeOf(options)));
    ExpectEqualParameters(*model, *copy);
    EXPECT_EQ(copy->ConfigJson(), model->ConfigJson());
  }
}

TEST_F(PretrainedTest, ReadsGptFilesWithoutPrefixAndWithConstants) {
  const auto model = MakeModel(kGpt);
  NamedTensors tensors = TensorsOf(*model);
  for (auto& [name, tensor] : tensors) name = name.substr(std::string("transformer.").size());
  tensors.emplace_back("h.0.attn.bias", at::zeros({1, 1, 8, 8}));
  tensors.emplace_back("lm_head.weight", at::zeros({40, 16}));
  WriteSafetensors(folder_.Path("model.safetensors"), tensors);
  const auto copy = MakeModel(kGpt);
  LoadWeights(*copy, folder_.Path());
  ExpectEqualParameters(*model, *copy);
}

TEST_F(PretrainedTest, ConvertsHalfPrecisionWeights) {
  const auto model = MakeModel(kMlp);
  NamedTensors tensors = TensorsOf(*model);
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kBFloat16);
  WriteSafetensors(folder_.Path("model.safetensors"), tensors);
  const auto copy = MakeModel(kMlp);
  LoadWeights(*copy, folder_.Path());
  EXPECT_EQ(copy->parameters()[0].scalar_type(), at::kFloat);
  EXPECT_TRUE(copy->parameters()[0].equal(tensors[0].second.to(at::kFloat)));
}

TEST_F(PretrainedTest, NamesAllTensorsThatDoNotFitAndChangesNothing) {
  const std::string path = folder_.Path("w.safetensors");
  WriteSafetensors(path, {{"layers.0.weight", at::zeros({3, 5})},
                          {"layers.0.bias", at::zeros({3}, at::kLong)},
                          {"layers.1.weight", at::zeros({2, 3})},
                          {"head.weight", at::zeros({2, 3})}});
  const auto model = MakeModel(kMlp);
  const at::Tensor before = model->parameters()[2].detach().clone();
  EXPECT_THAT(
      Complaint(*model, path),
      AllOf(HasSubstr("Missing (1): layers.1.bias"), HasSubstr("Not in the model (1): head.weight"),
            HasSubstr("layers.0.weight is [3, 5] in the file and [3, 4] in the model"),
            HasSubstr("layers.0.bias"), Not(HasSubstr("layers.1.weight"))));
  EXPECT_TRUE(model->parameters()[2].equal(before));
}

TEST_F(PretrainedTest, WritesShardsAndReadsThemBack) {
  const auto model = MakeModel(kGpt);
  SavePretrained(*model, folder_.Path());
  ASSERT_TRUE(Exists("model.safetensors"));
  SavePretrained(*model, folder_.Path(), {.max_shard_bytes = 4000});
  EXPECT_FALSE(Exists("model.safetensors")) << "it would be read in place of the shards";
  ASSERT_TRUE(Exists("model.safetensors.index.json"));
  const auto copy = MakeModel(kGpt);
  EXPECT_TRUE(LoadWeights(*copy, folder_.Path()).empty());
  ExpectEqualParameters(*model, *copy);
  SavePretrained(*model, folder_.Path());
  EXPECT_FALSE(Exists("model.safetensors.index.json"));
}

TEST_F(PretrainedTest, RefusesABrokenIndex) {
  const auto model = MakeModel(kMlp);
  SavePretrained(*model, folder_.Path(), {.max_shard_bytes = 64});
  const auto complaint = [&](const std::string& index) {
    folder_.Write("model.safetensors.index.json", index);
    return Complaint(*model, folder_.Path());
  };
  EXPECT_THAT(complaint("{"), HasSubstr("has no weight_map"));
  EXPECT_THAT(complaint(R"({"weight_map": {"a": "../b.safetensors"}})"),
              HasSubstr("names no file of its folder for tensor \"a\""));
  EXPECT_THAT(complaint(R"({"weight_map": {"a": 1}})"), HasSubstr("names no file"));
  EXPECT_THAT(complaint(R"({"weight_map": {"a": "gone.safetensors"}})"),
              HasSubstr("\"gone.safetensors\", which is not in the folder"));
  EXPECT_THAT(complaint(R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})"),
              HasSubstr("tensor \"a\" is in"));
}

TEST_F(PretrainedTest, ReadsFilesOfTorchSave) {
  const auto model = MakeModel(kMlp);
  EXPECT_THAT(Complaint(*model, folder_.Path()), HasSubstr("has neither model.safetensors nor"));
  folder_.Write("pytorch_model.bin", "pickle");
  EXPECT_THAT(Complaint(*model, folder_.Path()), HasSubstr("no valid safetensors file"));
  for (const std::string prefix : {"", "module.", "_orig_mod."}) {
    std::vector<LazyTensor> tensors;
    for (const auto& [name, tensor] : TensorsOf(*model)) {
      tensors.push_back({.name = prefix + name,
                         .dtype = tensor.scalar_type(),
                         .shape = tensor.sizes().vec(),
                         .read = [tensor = tensor] { return tensor; }});
    }
    WriteTorchFile(folder_.Path("pytorch_model.bin"), tensors);
    for (const std::string& path : {folder_.Path(), folder_.Path("pytorch_model.bin")}) {
      const auto copy = MakeModel(kMlp);
      LoadWeights(*copy, path);
      ExpectEqualParameters(*model, *copy);
    }
  }
}

TEST_F(PretrainedTest, DrawsAClassifierThatAnEncoderLacks) {
  const auto model = MakeModel(kBert);
  NamedTensors tensors;
  for (const auto& [name, tensor] : TensorsOf(*model)) {
    if (name.starts_with("bert.") && !name.starts_with("bert.pooler.")) {
      tensors.emplace_back(name.substr(5), tensor);
    }
  }
  tensors.emplace_back("cls.predictions.bias", at::zeros({40}));
  tensors.emplace_back("embeddings.position_ids", at::zeros({1, 8}, at::kLong));
  WriteSafetensors(folder_.Path("model.safetensors"), tensors);
  const auto draw = [&] {
    at::manual_seed(5);
    const auto copy = MakeModel(kBert, {}, /*initialize=*/false);
    EXPECT_THAT(LoadWeights(*copy, folder_.Path()),
                testing::UnorderedElementsAre("bert.pooler.dense.weight", "bert.pooler.dense.bias",
                                              "classifier.weight", "classifier.bias"));
    return copy;
  };
  const auto first = draw();
  ExpectEqualParameters(*first, *draw());
  const auto weight = first->named_parameters()["classifier.weight"];
  EXPECT_NEAR(weight.std().item<double>(), 0.02, 0.01);
  EXPECT_EQ(first->named_parameters()["classifier.bias"].abs().max().item<double>(), 0.0);
}

TEST_F(PretrainedTest, DrawsTheLastLayerThatAResNetLacks) {
  const auto published = MakeModel(ResNetOptions{.num_labels = 9});
  NamedTensors body;
  for (const auto& stored : published->State()) {
    if (!stored.key().starts_with("fc.")) body.emplace_back(stored.key(), stored.value());
  }
  const std::string file = folder_.Path("body.safetensors");
  WriteSafetensors(file, body);
  const auto model = MakeModel(ResNetOptions{.num_labels = 4}, {}, /*initialize=*/false);
  EXPECT_THAT(LoadWeights(*model, file), testing::UnorderedElementsAre("fc.weight", "fc.bias"));
  const auto state = model->State();
  for (const auto& [name, tensor] : body) EXPECT_TRUE(tensor.equal(state[name])) << name;
  // 1 / sqrt(512), as torch.nn.Linear.
  EXPECT_NEAR(state["fc.weight"].abs().max().item<double>(), 0.0442, 0.0005);
}

TEST_F(PretrainedTest, ReadsNormsUnderTheirOldNames) {
  const auto model = MakeModel(kBert);
  NamedTensors tensors = TensorsOf(*model);
  for (auto& [name, tensor] : tensors) {
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
  }
  WriteSafetensors(folder_.Path("model.safetensors"), tensors);
  const auto copy = MakeModel(kBert);
  LoadWeights(*copy, folder_.Path());
  ExpectEqualParameters(*model, *copy);
}

TEST_F(PretrainedTest, KeepsWhatTheSourceFolderSaysBeside) {
  const auto model = MakeModel(kBert);
  folder_.Write("from/config.json", R"({"model_type": "bert", "vocab_size": 7, "num_labels": 9,
      "dtype": "float16", "gradient_checkpointing": false})");
  folder_.Write("from/vocab.txt", "[PAD]\n");
  SavePretrained(*model, folder_.Path("to"), {.source = folder_.Path("from")});
  const auto config = nlohmann::json::parse(std::ifstream(folder_.Path("to/config.json")));
  EXPECT_EQ(config.at("gradient_checkpointing"), false);
  EXPECT_EQ(config.at("vocab_size"), 40);
  EXPECT_EQ(config.at("num_labels"), 3);
  EXPECT_EQ(config.at("dtype"), "float32");
  EXPECT_FALSE(config.contains("torch_dtype"));
  EXPECT_EQ(config.at("id2label").at("2"), "yes");
  EXPECT_EQ(config.at("label2id").at("yes"), 2);
  EXPECT_TRUE(Exists("to/vocab.txt"));
}

TEST_F(PretrainedTest, CopiesOneTokenizerWhole) {
  for (const char* name : {"tokenizer.json", "chat_template.jinja", "generation_config.json"}) {
    folder_.Write(std::string("from/") + name, "{}");
  }
  const std::string file = folder_.Write("other/vocab.json", "{}");
  folder_.Write("other/merges.txt", "");
  folder_.Write("other/generation_config.json", "other");
  const auto saved = [this](const std::string& tokenizer) {
    SavePretrained(*MakeModel(kMlp), folder_.Path("to"),
                   {.source = folder_.Path("from"), .tokenizer = tokenizer});
    EXPECT_EQ(std::filesystem::file_size(folder_.Path("to/generation_config.json")), 2);
    std::string found;
    for (const char* name : {"tokenizer.json", "chat_template.jinja", "vocab.json", "merges.txt"}) {
      if (Exists(std::string("to/") + name)) found += std::string(name) + " ";
    }
    return found;
  };
  EXPECT_EQ(saved(""), "tokenizer.json chat_template.jinja ");
  EXPECT_EQ(saved(folder_.Path("other")), "vocab.json merges.txt ");
  folder_.Write("other/tokenizer.json", "{}");
  EXPECT_EQ(saved(file), "vocab.json merges.txt ");
  EXPECT_EQ(saved(folder_.Path("other")), "tokenizer.json vocab.json merges.txt ");
}

TEST_F(PretrainedTest, ChangesOnlyWhatTheRunChangedInTheSourceConfig) {
  const std::string source = R"({"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2,
      "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 40,
      "classifier_dropout": null, "max_position_embeddings": 8, "hidden_dropout_prob": 0.0,
      "problem_type": null,
      "attention_probs_dropout_prob": 0.0, "initializer_range": 0.05, "mine": [1],
      "architectures": ["BertForSequenceClassification"]})";
  folder_.Write("from/config.json", source);
  auto options = std::get<BertOptions>(ReadModelOptions(folder_.Path("from")));
  const auto saved = [&](const ModelOptions& changed) {
    SavePretrained(*MakeModel(changed), folder_.Path("to"), {.source = folder_.Path("from")});
    return nlohmann::json::parse(std::ifstream(folder_.Path("to/config.json")));
  };
  auto expected = nlohmann::json::parse(source);
  EXPECT_EQ(saved(options), expected);
  options.dropout = 0.25;
  options.classifier_dropout = 0.25;  // what null means
  expected["hidden_dropout_prob"] = 0.25;
  EXPECT_EQ(saved(options), expected);
  options.num_labels = 3;
  for (const char* index : {"0", "1", "2"}) {
    const std::string name = std::string("LABEL_") + index;
    expected["id2label"][index] = name;
    expected["label2id"][name] = index[0] - '0';
  }
  EXPECT_EQ(saved(options), expected);
}

TEST_F(PretrainedTest, NamesTheClassesOfModelsThatKnowNone) {
  const std::string folder = folder_.Path("model");
  SavePretrained(*MakeModel(ResNetOptions{.num_labels = 2}), folder,
                 {.labels = {"cat", "dog"}, .files = {{"about.json", "{}"}}});
  const auto config = nlohmann::json::parse(std::ifstream(folder_.Path("model/config.json")));
  EXPECT_EQ(config.at("id2label"), (nlohmann::json{{"0", "cat"}, {"1", "dog"}}));
  EXPECT_EQ(config.at("label2id"), (nlohmann::json{{"cat", 0}, {"dog", 1}}));
  EXPECT_TRUE(Exists("model/about.json"));
}

TEST_F(PretrainedTest, LeavesTheOldFolderAsItWasWhenSavingFails) {
  const auto old = MakeModel(kMlp);
  SavePretrained(*old, folder_.Path("model/"));
  folder_.Write("model/mine.txt", "kept");
  EXPECT_THROW(
      SavePretrained(*MakeModel(kGpt), folder_.Path("model"), {.files = {{"none/file", "text"}}}),
      Failure);
  const auto copy = MakeModel(kMlp);
  LoadWeights(*copy, folder_.Path("model"));
  ExpectEqualParameters(*old, *copy);
  EXPECT_TRUE(Exists("model/mine.txt"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.Path()), {}), 1);
}

TEST_F(PretrainedTest, SavesTheWeightsThoughTheSourceFolderIsGone) {
  const auto model = MakeModel(kMlp);
  SavePretrained(*model, folder_.Path("to"), {.source = folder_.Path("gone")});
  const auto copy = MakeModel(ReadModelOptions(folder_.Path("to")));
  LoadWeights(*copy, folder_.Path("to"));
  ExpectEqualParameters(*model, *copy);
}

TEST_F(PretrainedTest, RefusesFoldersItCannotUse) {
  const auto complaint = [this](const std::string& config) { return ConfigComplaint(config); };
  EXPECT_THROW(ReadModelOptions(folder_.Path("none")), Failure);
  folder_.Write("run/model/config.json", "{}");
  EXPECT_THAT(ErrorOf([&] { ReadModelOptions(folder_.Path("run")); }).what,
              HasSubstr("its model is in \"" + folder_.Path("run/model") + "\"."));
  EXPECT_THAT(complaint("{"), HasSubstr("no JSON object"));
  EXPECT_THAT(complaint(R"({"model_type":"bloom"})"), HasSubstr("\"bloom\""));
  EXPECT_THAT(complaint(R"({"model_type":"gpt2","n_layer":"two"})"), HasSubstr("n_layer"));
  EXPECT_THAT(complaint(R"({"model_type":"gpt2","activation_function":"relu"})"),
              HasSubstr("activation_function"));
  EXPECT_THAT(complaint(R"({"model_type":"mlp"})"), HasSubstr("layer_sizes"));
  EXPECT_THAT(complaint(R"({"model_type":"bert","position_embedding_type":"relative_key"})"),
              HasSubstr("\"absolute\" was expected"));
  EXPECT_THAT(complaint(R"({"model_type":"bert","id2label":{"1":"a"}})"), HasSubstr("id2label"));
  EXPECT_THAT(complaint(R"({"model_type":"bert","hidden_size":-1})"), HasSubstr("hidden_size"));
  EXPECT_THAT(complaint(R"({"model_type":"llama","rope_scaling":{"rope_type":"yarn"}})"),
              HasSubstr("\"yarn\""));
}

// Each of these changes what the network computes; none may be passed over.
TEST_F(PretrainedTest, RefusesVariantsThatItWouldComputeWrongly) {
  const std::pair<const char*, const char*> cases[] = {
      {"bert", R"("position_embedding_type": "relative_key_query")"},
      {"bert", R"("hidden_act": "relu")"},
      {"bert", R"("is_decoder": true)"},
      {"bert", R"("add_cross_attention": true)"},
      {"bert", R"("pruned_heads": {"0": [1]})"},
      {"bert", R"("problem_type": "multi_label_classification")"},
      {"bert", R"("problem_type": "regression")"},
      {"bert", R"("layer_norm_eps": 0)"},
      {"gpt2", R"("activation_function": "silu")"},
      {"gpt2", R"("scale_attn_weights": false)"},
      {"gpt2", R"("scale_attn_by_inverse_layer_idx": true)"},
      {"gpt2", R"("add_cross_attention": true)"},
      {"gpt2", R"("n_head": 6, "num_attention_heads": 4)"},
      {"llama", R"("hidden_act": "gelu")"},
      {"llama", R"("partial_rotary_factor": 0.5)"},
      {"llama", R"("pad_token_id": 32000)"},
      {"llama", R"("rms_norm_eps": -1e-6)"},
      {"llama", R"("rope_theta": 0)"},
      {"llama", R"("rope_scaling": {"rope_type": "longrope", "factor": 4.0})"},
      {"llama", R"("rope_scaling": {"type": "linear"})"},
      {"llama", R"("rope_scaling": {"rope_type": "linear", "factor": 0})"},
      {"llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0})"},
      {"llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 16})"},
      {"llama", R"("quantization_config": {"quant_method": "gptq"})"},
      {"llama", R"("auto_map": {"AutoModel": "modeling.Mine"})"},
  };
  for (const auto& [type, keys] : cases) {
    const std::string text(keys);
    const std::string complaint =
        ConfigComplaint(R"({"model_type": ")" + std::string(type) + "\", " + text + "}");
    EXPECT_THAT(complaint, testing::ContainsRegex("was expected|It has")) << text;
  }
}

TEST_F(PretrainedTest, ReadsWhatEndsATextFromTheFirstFileThatSaysIt) {
  using Tokens = std::vector<int64_t>;
  const auto tokens = [&](const char* config, const char* generation) {
    folder_.Write("config.json", config);
    folder_.Write("generation_config.json", generation);
    return ReadStopTokens(folder_.Path());
  };
  const char* seven = R"({"model_type": "llama", "eos_token_id": 7})";
  EXPECT_EQ(tokens(seven, R"({"eos_token_id": [5, 6]})"), (Tokens{5, 6}));
  EXPECT_EQ(tokens(seven, R"({"eos_token_id": 5})"), Tokens{5});
  EXPECT_EQ(tokens(seven, R"({"eos_token_id": null})"), Tokens{7});
  EXPECT_EQ(tokens(seven, R"({"eos_token_id": []})"), Tokens{7});
  EXPECT_EQ(tokens(R"({"model_type": "llama", "eos_token_id": null})", "{}"), Tokens{});
  EXPECT_EQ(tokens(R"({"model_type": "llama"})", "{}"), Tokens{2});
  EXPECT_EQ(tokens(R"({"model_type": "gpt2"})", "{}"), Tokens{50256});
  try {
    tokens(seven, R"({"eos_token_id": "<e>"})");
    ADD_FAILURE() << "no complaint";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.error().where, HasSubstr("generation_config.json"));
    EXPECT_THAT(failure.error().what, HasSubstr("eos_token_id is \"<e>\""));
  }
}

TEST_F(PretrainedTest, ReadsSizesUnderTheirGeneralNames) {
  folder_.Write("config.json", R"({"model_type": "gpt2", "hidden_size": 24, "num_hidden_layers": 2,
      "num_attention_heads": 3, "max_position_embeddings": 9, "n_embd": 24})");
  const auto options = std::get<GptOptions>(ReadModelOptions(folder_.Path()));
  EXPECT_EQ(options.hidden_size, 24);
  EXPECT_EQ(options.num_hidden_layers, 2);
  EXPECT_EQ(options.num_attention_heads, 3);
  EXPECT_EQ(options.max_position_embeddings, 9);
}

}  // namespace
}  // namespace ddprun::trainer
