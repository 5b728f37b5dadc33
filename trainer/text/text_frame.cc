#include <nlohmann/json.hpp>

#include "trainer/text/tokenizer_models.h"

namespace ddprun::trainer {

namespace {

using nlohmann::json;

void Append(const std::vector<std::string>& tokens, std::vector<std::string>& list) {
  list.insert(list.end(), tokens.begin(), tokens.end());
}

// {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
//  "special_tokens": {"<s>": {"tokens": ["<s>"]}}}
TextFrame FrameOfTemplate(const json& section) {
  TextFrame frame;
  bool behind = false;
  for (const json& piece : section.at("single")) {
    if (piece.contains("Sequence")) {
      behind = true;
      continue;
    }
    const auto id = piece.at("SpecialToken").at("id").get<std::string>();
    Append(section.at("special_tokens").at(id).at("tokens").get<std::vector<std::string>>(),
           behind ? frame.after : frame.before);
  }
  return frame;
}

TextFrame FrameOfStep(const std::filesystem::path& file, const json& step) {
  const auto type = step.at("type").get<std::string>();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return FrameOfTemplate(step);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return {.before = {step.at("cls").at(0).get<std::string>()},
            .after = {step.at("sep").at(0).get<std::string>()}};
  }
  throw UnsupportedTokenizer(file, "Its post_processor is " + type + ", which is not supported.");
}

}  // namespace

TextFrame ReadPostProcessor(const std::filesystem::path& file, const json& section) {
  if (section.is_null()) return {};
  if (section.at("type") != "Sequence") return FrameOfStep(file, section);
  TextFrame frame;
  for (const json& step : section.at("processors")) {
    TextFrame outer = FrameOfStep(file, step);
    Append(frame.before, outer.before);
    frame.before = std::move(outer.before);
    Append(outer.after, frame.after);
  }
  return frame;
}

TextFrame FrameOf(const TokenizerConfig& config, bool add_bos_otherwise) {
  TextFrame frame;
  const auto add = [&config](const char* role, std::vector<std::string>& list) {
    const auto found = config.roles.find(role);
    if (found != config.roles.end()) list.push_back(found->second.content);
  };
  if (config.add_bos_token.value_or(add_bos_otherwise)) add("bos", frame.before);
  if (config.add_eos_token.value_or(false)) add("eos", frame.after);
  return frame;
}

}  // namespace ddprun::trainer
