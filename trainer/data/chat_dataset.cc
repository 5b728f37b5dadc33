#include "trainer/data/chat_dataset.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/cpus.h"
#include "base/text.h"
#include "base/unnamed_file.h"
#include "trainer/data/data_files.h"
#include "trainer/data/pack_texts.h"
#include "trainer/text/document_reader.h"
#include "trainer/text/token_file.h"

namespace ddprun::trainer {

namespace {

using simdjson::dom::element;

constexpr int64_t kNoTarget = -100;    // see torch.nn.functional.cross_entropy
constexpr int64_t kAnyId = 1LL << 30;  // makes the writer take 32 bits for each token

// Returns the messages of a row, or throws simdjson_error.
std::vector<ChatMessage> MessagesOf(const element& row, const std::string& column) {
  std::vector<ChatMessage> messages;
  for (const element message : row[column].get_array()) {
    const std::string_view role = message["role"].get_string();
    const std::string_view content = message["content"].get_string();
    messages.push_back({std::string(role), std::string(content)});
  }
  return messages;
}

}  // namespace

// Reads files in pieces and tokenizes the lines of a piece on all cores.
class ChatDataset::Reader {
 public:
  Reader(const ChatDatasetOptions& options, std::shared_ptr<const Tokenizer> tokenizer)
      : options_(options), template_(options.chat_template, std::move(tokenizer)) {}

  // Writes the tokens, and adds their ends and the bad rows to `chats`. Returns whether any of them
  // is to be learnt.
  bool Read(TokenFileWriter& writer, ChatDataset& chats) const {
    bool has_answers = false;
    DocumentReader reader({.files = options_.files,
                           .is_rows = std::vector<bool>(options_.files.size(), true),
                           .piece_bytes = size_t{8} << 20});
    TextPiece piece;
    while (reader.Next(piece)) {
      const std::vector<TextRow> lines = RowsOf(piece);
      std::vector<Row> rows(lines.size());
      constexpr size_t kLinesAtOnce = 64;
      RunInParts(CoreCount(), lines.size(), kLinesAtOnce, [&](size_t begin, size_t end) {
        simdjson::dom::parser parser;
        for (size_t i = begin; i < end; ++i) rows[i] = Encode(lines[i].text, parser);
      });
      for (size_t i = 0; i < lines.size(); ++i) {
        if (rows[i].wrong.empty()) {
          has_answers = has_answers || rows[i].has_answer;
          writer.Append(rows[i].tokens);
          chats.ends_.push_back(writer.tokens());
        } else {
          chats.bad_rows_.Add(options_.files[piece.file], lines[i].line, rows[i].wrong);
        }
      }
    }
    return has_answers;
  }

 private:
  struct Row {
    std::vector<int32_t> tokens = {};
    bool has_answer = false;
    std::string wrong = {};  // a sentence; "" means that the row is good
  };

  Row Encode(std::string_view line, simdjson::dom::parser& parser) const {
    try {
      const std::vector<ChatMessage> messages =
          MessagesOf(parser.parse(line.data(), line.size()), options_.column);
      if (messages.empty()) return {.wrong = "\"" + options_.column + "\" is empty."};
      const EncodedChat chat = template_.Encode(messages);
      // Inputs and targets share all tokens but one.
      Row row{.tokens = {chat.ids.begin(),
                         chat.ids.begin() +
                             std::min<ptrdiff_t>(std::ssize(chat.ids), options_.max_length + 1)}};
      for (size_t i = 0; i < row.tokens.size(); ++i) {
        row.tokens[i] = 2 * row.tokens[i] + (chat.in_answer[i] ? 1 : 0);
        row.has_answer = row.has_answer || (i > 0 && chat.in_answer[i]);
      }
      return row;
    } catch (const simdjson::simdjson_error& error) {
      return {.wrong = "The line is no JSON object with \"" + options_.column +
                       "\": [{\"role\": \"...\", \"content\": \"...\"}, ...], with texts (" +
                       error.what() + ")."};
    }
  }

  const ChatDatasetOptions& options_;
  const ChatTemplate template_;
};

ChatDataset::ChatDataset(const ChatDatasetOptions& options,
                         std::shared_ptr<const Tokenizer> tokenizer)
    : vocab_size_(tokenizer->vocab_size()),
      max_length_(options.max_length),
      bad_rows_(options.skip_bad_rows) {
  const Reader reader(options, std::move(tokenizer));
  const std::string folder = TemporaryFolder();
  const UniqueFd file = ValueOrThrow(OpenUnnamedFile(folder));
  TokenFileWriter writer(file.get(), folder, TokenFileFormat::kBare, kAnyId);
  const bool has_answers = reader.Read(writer, *this);
  writer.Finish();
  if (ends_.empty()) {
    throw WrongDataFile(options.files.front(), "The data files have no conversation.",
                        "Each line is expected to be a JSON object with \"" + options.column +
                            "\": [{\"role\": \"user\", \"content\": \"...\"}, ...].");
  }
  if (!has_answers) {
    throw WrongDataFile(options.files.front(),
                        "No conversation has an answer within data.max_seq_length (" +
                            std::to_string(max_length_) + "): nothing would be learnt.",
                        "Answers are the messages with the role \"assistant\".");
  }
  tokens_ = ValueOrThrow(MappedFile::Open("/proc/self/fd/" + std::to_string(file.get())));
  if (options.packs) packs_ = PackTexts(Lengths(), max_length_);
}

int64_t ChatDataset::size() const {
  return packs_.empty() ? std::ssize(ends_) : std::ssize(packs_);
}

std::span<const int32_t> ChatDataset::TokensOf(int64_t conversation) const {
  const auto i = static_cast<size_t>(conversation);
  const int64_t begin = i == 0 ? 0 : ends_[i - 1];
  const auto* tokens = reinterpret_cast<const int32_t*>(tokens_->bytes().data());
  return {tokens + begin, tokens + ends_[i]};
}

std::span<const int64_t> ChatDataset::ConversationsOf(int64_t sample, const int64_t& alone) const {
  DDPRUN_CHECK(sample >= 0 && sample < size());
  if (packs_.empty()) return {&alone, 1};
  return packs_[static_cast<size_t>(sample)];
}

int64_t ChatDataset::LengthOf(int64_t sample) const {
  int64_t length = 0;
  for (const int64_t one : ConversationsOf(sample, sample)) length += std::ssize(TokensOf(one)) - 1;
  return length;
}

Batch ChatDataset::Get(std::span<const int64_t> indices) const {
  int64_t length = 1;
  for (const int64_t index : indices) length = std::max(length, LengthOf(index));
  const auto count = std::ssize(indices);
  Batch batch{.inputs = at::zeros({count, length}, at::kLong),
              .targets = at::full({count, length}, kNoTarget, at::kLong),
              .samples = count};
  if (!packs_.empty()) batch.attention_mask = at::zeros({count, length}, at::kLong);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t& index = indices[static_cast<size_t>(row)];
    int64_t at = row * length;
    int64_t number = 0;
    for (const int64_t one : ConversationsOf(index, index)) {
      const std::span<const int32_t> tokens = TokensOf(one);
      ++number;
      for (size_t i = 0; i + 1 < tokens.size(); ++i, ++at) {
        batch.inputs.mutable_data_ptr<int64_t>()[at] = tokens[i] / 2;
        if (!packs_.empty()) batch.attention_mask.mutable_data_ptr<int64_t>()[at] = number;
        if (tokens[i + 1] % 2 == 0) continue;
        batch.targets.mutable_data_ptr<int64_t>()[at] = tokens[i + 1] / 2;
        ++batch.predictions;
      }
    }
  }
  return batch;
}

std::vector<int64_t> ChatDataset::Lengths() const {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < size(); ++i) lengths.push_back(std::max<int64_t>(LengthOf(i), 1));
  return lengths;
}

std::vector<std::string> ChatDataset::Notes() const {
  std::vector<std::string> notes = bad_rows_.Notes();
  if (!packs_.empty()) {
    notes.push_back(CountText(std::ssize(ends_), "conversation") + " packed into " +
                    CountText(size(), "sample") + " of up to " + std::to_string(max_length_) +
                    " tokens");
  }
  return notes;
}

}  // namespace ddprun::trainer
