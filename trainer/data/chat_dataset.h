// Conversations for language models. They are tokenized once, into a file without a name, so that
// they may be larger than the memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "trainer/data/bad_rows.h"
#include "trainer/data/dataset.h"
#include "trainer/text/chat_template.h"

namespace ddprun::trainer {

struct ChatDatasetOptions {
  std::vector<std::string> files = {};   // JSON lines, also with .gz
  std::string column = "messages";       // the key of a row's messages
  std::string chat_template = "chatml";  // ChatTemplate's name
  int64_t max_length = 128;              // tokens; longer conversations are cut
  bool packs = false;                    // several conversations in a sample, up to max_length
  bool skip_bad_rows = false;
};

class ChatDataset final : public Dataset {
 public:
  // Tokenizes all rows, on as many threads as there are cores. Throws Failure if files are wrong,
  // if the tokenizer does not fit the template, or if the disk for temporary files is full.
  ChatDataset(const ChatDatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

  int64_t size() const override;
  // Returns int64 inputs and targets [B, L], L being the longest row's length. A target is the next
  // token of the conversation if this is of an answer, and -100 elsewhere. Padding stands behind
  // each row, where no token of the row sees it. If conversations are packed, attention_mask has
  // their numbers.
  Batch Get(std::span<const int64_t> indices) const override;
  DataShape shape() const override { return {.vocab_size = vocab_size_}; }
  bool equal_predictions() const override { return false; }
  std::vector<int64_t> Lengths() const override;
  std::vector<std::string> Notes() const override;

 private:
  class Reader;

  // Returns the conversation's tokens, one more than it has inputs. Each is 2 * id + 1 if it is of
  // an answer, 2 * id if not.
  std::span<const int32_t> TokensOf(int64_t conversation) const;
  // Returns the conversations of a sample. `alone` must outlive the result.
  std::span<const int64_t> ConversationsOf(int64_t sample, const int64_t& alone) const;
  int64_t LengthOf(int64_t sample) const;  // in inputs, without padding

  const int64_t vocab_size_;
  const int64_t max_length_;
  BadRows bad_rows_;
  std::vector<int64_t> ends_;  // of each conversation, in tokens
  std::optional<MappedFile> tokens_;
  std::vector<std::vector<int64_t>> packs_;  // empty: each conversation is a sample
};

}  // namespace ddprun::trainer
