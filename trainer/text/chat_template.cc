#include "trainer/text/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/failure.h"
#include "trainer/text/unicode.h"
#include "trainer/text/utf8.h"

namespace ddprun::trainer {

// A token of the vocabulary, or a text.
struct ChatPiece {
  std::string_view text;
  bool is_token = false;
};

struct ChatForm {
  std::string_view name;
  std::vector<ChatPiece> begin;  // of the conversation
  std::vector<ChatPiece> before_role;
  std::vector<ChatPiece> after_role;
  std::vector<ChatPiece> end;  // of a message; the first piece belongs to the answer
  bool trims = false;          // white space around the content is left out
};

namespace {

// Stands for the token that ends a document in this vocabulary.
constexpr ChatPiece kEnd = {"", true};

const ChatForm& FormOf(std::string_view name) {
  static const std::array<ChatForm, 3> kForms = {
      ChatForm{.name = "chatml",
               .begin = {},
               .before_role = {{"<|im_start|>", true}},
               .after_role = {{"\n"}},
               .end = {{"<|im_end|>", true}, {"\n"}}},
      ChatForm{.name = "llama3",
               .begin = {{"<|begin_of_text|>", true}},
               .before_role = {{"<|start_header_id|>", true}},
               .after_role = {{"<|end_header_id|>", true}, {"\n\n"}},
               .end = {{"<|eot_id|>", true}},
               .trims = true},
      ChatForm{.name = "zephyr",
               .begin = {},
               .before_role = {{"<|"}},
               .after_role = {{"|>\n"}},
               .end = {kEnd, {"\n"}}}};
  const auto form = std::ranges::find(kForms, name, &ChatForm::name);
  DDPRUN_CHECK(form != kForms.end());
  return *form;
}

int32_t IdOf(const ChatPiece& token, const Tokenizer& tokenizer) {
  return token.text.empty() ? tokenizer.special().eos : tokenizer.Find(token.text);
}

std::string Trimmed(std::string_view text) {
  std::string storage;
  text = ValidUtf8(text, storage);
  const size_t begin = StripRight(text, 0, IsPythonSpace);
  const size_t end = StripLeft(text, begin, text.size(), IsPythonSpace);
  return std::string(text.substr(begin, end - begin));
}

// Text between two tokens is encoded as a whole, because its parts could form other tokens alone.
class ChatEncoder {
 public:
  explicit ChatEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void Add(const std::vector<ChatPiece>& pieces, bool first_in_answer = false) {
    for (const ChatPiece& piece : pieces) {
      if (!piece.is_token) {
        AddText(piece.text, false);
        continue;
      }
      FlushText();
      chat_.ids.push_back(IdOf(piece, tokenizer_));
      chat_.in_answer.push_back(first_in_answer && &piece == &pieces.front());
    }
  }
  // REQUIRES: a token follows a text that is in an answer.
  void AddText(std::string_view text, bool in_answer) {
    if (in_answer) question_ = text_.size();
    text_ += text;
  }
  EncodedChat Finish() {
    FlushText();
    return std::move(chat_);
  }

 private:
  void FlushText() {
    const std::string text = std::exchange(text_, {});
    const size_t question = std::exchange(question_, std::string::npos);
    std::vector<int32_t> ids;
    if (!text.empty()) tokenizer_.Encode(text, ids);
    size_t outside = ids.size();
    if (question != std::string::npos) {
      // A token that has bytes of both belongs to the answer.
      std::vector<int32_t> before;
      if (question > 0) tokenizer_.Encode(std::string_view(text).substr(0, question), before);
      outside = static_cast<size_t>(std::ranges::mismatch(ids, before).in1 - ids.begin());
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      chat_.ids.push_back(ids[i]);
      chat_.in_answer.push_back(i >= outside);
    }
  }

  const Tokenizer& tokenizer_;
  EncodedChat chat_;
  std::string text_;                     // since the last token
  size_t question_ = std::string::npos;  // the length of its part before an answer
};

}  // namespace

ChatTemplate::ChatTemplate(std::string_view name, std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)), form_(FormOf(name)) {
  for (const auto* pieces : {&form_.begin, &form_.before_role, &form_.after_role, &form_.end}) {
    for (const ChatPiece& piece : *pieces) {
      if (!piece.is_token || IdOf(piece, *tokenizer_) >= 0) continue;
      const std::string token = piece.text.empty() ? "token that ends a document"
                                                   : "token \"" + std::string(piece.text) + "\"";
      throw Failure(Error{.code = Code::kUsage,
                          .title = "NO TOKEN OF THE CHAT TEMPLATE",
                          .where = "data.chat_template",
                          .what = "The tokenizer has no " + token + ", which the template \"" +
                                  std::string(name) + "\" needs.",
                          .hint = "Take the tokenizer of a model with this template, or another "
                                  "template: \"zephyr\" only needs a token that ends a document.",
                          .page = "no-token-of-the-chat-template"});
    }
  }
}

EncodedChat ChatTemplate::Encode(std::span<const ChatMessage> messages) const {
  ChatEncoder encoder(*tokenizer_);
  encoder.Add(form_.begin);
  for (const ChatMessage& message : messages) {
    const bool answers = message.role == "assistant";
    encoder.Add(form_.before_role);
    encoder.AddText(message.role, false);
    encoder.Add(form_.after_role);
    encoder.AddText(form_.trims ? Trimmed(message.content) : message.content, answers);
    encoder.Add(form_.end, answers);
  }
  return encoder.Finish();
}

}  // namespace ddprun::trainer
