// Conversations for language models. The loader's threads tokenize them when a batch needs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/data/bad_rows.h"
#include "trainer/data/dataset.h"
#include "trainer/text/chat_template.h"

namespace ddprun::trainer {

struct ChatDatasetOptions {
  std::vector<std::string> files = {};   // JSON lines, also with .gz
  std::string column = "messages";       // the key of a row's messages
  std::string chat_template = "chatml";  // ChatTemplate's name
  int64_t max_length = 128;              // tokens; longer conversations are cut
  bool skip_bad_rows = false;
};

class ChatDataset final : public Dataset {
 public:
  // Throws Failure if files are wrong, or if the tokenizer does not fit the template.
  ChatDataset(const ChatDatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

  int64_t size() const override { return static_cast<int64_t>(chats_.size()); }
  // Returns int64 inputs and targets [B, L], L being the longest row's length. A target is the next
  // token if this is of an answer, and -100 elsewhere. Padding stands behind each row, where no
  // token of the row sees it.
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override { return {.vocab_size = vocab_size_}; }
  bool equal_predictions() const override { return false; }
  // Tokenizes all rows, on as many threads as there are cores.
  std::vector<int64_t> Lengths() const override;
  std::vector<std::string> Notes() const override { return bad_rows_.Notes(); }

 private:
  void ReadFile(const std::string& path, const std::string& column);
  // Returns the conversation, cut to max_length + 1 tokens: inputs and targets share all but one.
  EncodedChat Encode(int64_t index) const;

  const ChatTemplate template_;
  const int64_t vocab_size_;
  const int64_t max_length_;
  BadRows bad_rows_;
  std::vector<std::vector<ChatMessage>> chats_;
};

}  // namespace ddprun::trainer
