// Writes conversations as tokens, in the forms of chat models. LibTorch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/text/tokenizer.h"

namespace ddprun::trainer {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct EncodedChat {
  std::vector<int32_t> ids;
  // By token: whether it is of an answer, which is the content of an assistant's message and the
  // token that ends it.
  std::vector<bool> in_answer;
};

struct ChatForm;  // a row of the table of forms

// Immutable after construction: any thread may call any method.
class ChatTemplate {
 public:
  // `name`: "chatml", "llama3" or "zephyr". Throws Failure if the tokenizer lacks a token of it.
  ChatTemplate(std::string_view name, std::shared_ptr<const Tokenizer> tokenizer);

  // Returns the tokens of transformers' apply_chat_template() with the form's Jinja template.
  EncodedChat Encode(std::span<const ChatMessage> messages) const;

 private:
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ChatForm& form_;
};

}  // namespace ddprun::trainer
