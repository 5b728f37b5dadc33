#include "trainer/data/token_blocks.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "trainer/data/data_files.h"
#include "trainer/text/file_stream.h"

namespace ddprun::trainer {

namespace {

int64_t TokenAt(const std::byte* from, size_t width) {
  uint32_t token = 0;
  std::memcpy(&token, from, width);  // little endian, as on x86-64 and AArch64
  return token;
}

}  // namespace

void TokenBlocks::Add(std::string path, MappedFile file, size_t begin, size_t width) {
  const auto count = static_cast<int64_t>((file.bytes().size() - begin) / width);
  if (count == 0) return;
  ends_.push_back(tokens() + count);
  parts_.push_back({std::move(path), std::move(file), begin, width});
}

Batch TokenBlocks::Get(std::span<const int64_t> indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  Batch batch{.inputs = at::empty({count, sequence_length_}, at::kLong),
              .targets = at::empty({count, sequence_length_}, at::kLong),
              .samples = count,
              .predictions = count * sequence_length_};
  auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
  auto* targets = batch.targets.mutable_data_ptr<int64_t>();
  std::vector<int64_t> tokens(static_cast<size_t>(sequence_length_ + 1));
  for (const int64_t index : indices) {
    DDPRUN_CHECK(index >= 0 && index < size());
    Copy(index * sequence_length_, tokens);
    inputs = std::copy(tokens.begin(), tokens.end() - 1, inputs);
    targets = std::copy(tokens.begin() + 1, tokens.end(), targets);
  }
  return batch;
}

void TokenBlocks::Copy(int64_t begin, std::vector<int64_t>& to) const {
  std::span<int64_t> rest(to);
  size_t i = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
  for (; !rest.empty(); ++i) {
    const int64_t part_begin = i == 0 ? 0 : ends_[i - 1];
    const size_t count = std::min<size_t>(rest.size(), ends_[i] - begin);
    CopyFrom(parts_[i], begin - part_begin, rest.first(count));
    rest = rest.subspan(count);
    begin += static_cast<int64_t>(count);
  }
}

void TokenBlocks::CopyFrom(const Part& part, int64_t first, std::span<int64_t> to) const {
  // Copies through a small buffer, because only CopyMapped() may access a page that is gone.
  std::array<std::byte, 4096> buffer;
  const size_t step = buffer.size() / part.width;
  for (size_t done = 0; done < to.size(); done += step) {
    const size_t count = std::min(step, to.size() - done);
    const auto at = static_cast<size_t>(first) + done;
    const std::byte* from = part.file.bytes().data() + part.begin + at * part.width;
    if (!CopyMapped(buffer.data(), from, count * part.width)) {
      throw UnreadableFile(part.path,
                           "it has become shorter since the run began, or its disk fails");
    }
    for (size_t i = 0; i < count; ++i) {
      const int64_t token = TokenAt(buffer.data() + i * part.width, part.width);
      if (vocab_size_ > 0 && token >= vocab_size_) {
        throw WrongDataFile(part.path,
                            "Token " + std::to_string(at + i) + " of \"" + part.path + "\" is " +
                                std::to_string(token) + "; the model's vocabulary has " +
                                std::to_string(vocab_size_) + " entries, from 0 on.",
                            "Set model.vocab_size to that of the tokenizer that made the file.");
      }
      to[done + i] = token;
    }
  }
}

}  // namespace ddprun::trainer
