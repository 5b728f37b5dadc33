#include "trainer/data/chat_dataset.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/cpus.h"
#include "trainer/data/data_files.h"

namespace ddprun::trainer {

namespace {

using simdjson::dom::element;

constexpr int64_t kNoTarget = -100;  // see torch.nn.functional.cross_entropy

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

ChatDataset::ChatDataset(const ChatDatasetOptions& options,
                         std::shared_ptr<const Tokenizer> tokenizer)
    : template_(options.chat_template, tokenizer),
      vocab_size_(tokenizer->vocab_size()),
      max_length_(options.max_length),
      bad_rows_(options.skip_bad_rows) {
  for (const std::string& file : options.files) ReadFile(file, options.column);
  if (!chats_.empty()) return;
  throw WrongDataFile(options.files.front(), "The data files have no conversation.",
                      "Each line is expected to be a JSON object with \"" + options.column +
                          "\": [{\"role\": \"user\", \"content\": \"...\"}, ...].");
}

void ChatDataset::ReadFile(const std::string& path, const std::string& column) {
  const FileBytes bytes = ReadDataFile(path, simdjson::SIMDJSON_PADDING);
  RefuseOtherThanText(path, bytes.text());
  simdjson::dom::parser parser;
  std::string_view rest = bytes.text();
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, std::min(rest.find('\n'), rest.size()));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      // simdjson reads beyond the line: into the next lines, or into the padding.
      std::vector<ChatMessage> messages =
          MessagesOf(parser.parse(line.data(), line.size(), false), column);
      if (messages.empty()) {
        bad_rows_.Add(path, number, "\"" + column + "\" is empty.");
      } else {
        chats_.push_back(std::move(messages));
      }
    } catch (const simdjson::simdjson_error& error) {
      bad_rows_.Add(path, number,
                    "The line is no JSON object with \"" + column +
                        "\": [{\"role\": \"...\", \"content\": \"...\"}, ...], with texts (" +
                        error.what() + ").");
    }
  }
}

EncodedChat ChatDataset::Encode(int64_t index) const {
  EncodedChat chat = template_.Encode(chats_[static_cast<size_t>(index)]);
  const size_t most = static_cast<size_t>(max_length_) + 1;
  if (chat.ids.size() > most) {
    chat.ids.resize(most);
    chat.in_answer.resize(most);
  }
  return chat;
}

Batch ChatDataset::Get(std::span<const int64_t> indices) const {
  std::vector<EncodedChat> chats;
  int64_t length = 1;
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size());
    chats.push_back(Encode(index));
    length = std::max(length, std::ssize(chats.back().ids) - 1);
  }
  const auto count = std::ssize(indices);
  Batch batch{.inputs = at::zeros({count, length}, at::kLong),
              .targets = at::full({count, length}, kNoTarget, at::kLong),
              .samples = count};
  auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  for (const EncodedChat& chat : chats) {
    for (size_t i = 0; i + 1 < chat.ids.size(); ++i) {
      inputs[i] = chat.ids[i];
      if (!chat.in_answer[i + 1]) continue;
      targets[i] = chat.ids[i + 1];
      ++batch.predictions;
    }
    inputs += length;
    targets += length;
  }
  return batch;
}

std::vector<int64_t> ChatDataset::Lengths() const {
  std::vector<int64_t> lengths(chats_.size());
  constexpr size_t kRowsAtOnce = 64;
  RunInParts(CoreCount(), lengths.size(), kRowsAtOnce, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      lengths[i] = std::max<int64_t>(std::ssize(Encode(static_cast<int64_t>(i)).ids) - 1, 1);
    }
  });
  return lengths;
}

}  // namespace ddprun::trainer
