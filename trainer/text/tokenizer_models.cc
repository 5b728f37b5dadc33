#include "trainer/text/tokenizer_models.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "trainer/text/utf8.h"

namespace ddprun::trainer {

namespace {

using Path = std::filesystem::path;

// Gives a token of the list the flags of another. Like `transformers`, lets a special token stay so
// and be searched as before, and lets others be searched in both texts if the flags differ in this.
void OverrideFlags(const AddedToken& by, std::vector<AddedToken>& list) {
  const auto old = std::ranges::find(list, by.content, &AddedToken::content);
  old->left_strip = by.left_strip;
  old->right_strip = by.right_strip;
  const bool keeps = old->special || old->normalized == by.normalized;
  old->special = old->special || by.special;
  if (keeps) return;
  AddedToken other = *old;
  other.normalized = by.normalized;
  list.push_back(std::move(other));
}

constexpr const char* kRoleOrder[] = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};

std::vector<int32_t> IdsOf(const Path& file,
                           const std::vector<std::string>& tokens,
                           const Vocabulary& vocabulary) {
  std::vector<int32_t> ids;
  for (const std::string& token : tokens) {
    ids.push_back(vocabulary.Find(token));
    if (ids.back() >= 0) continue;
    throw BrokenTokenizer(file, "It adds the token \"" + token +
                                    "\" to texts, but the vocabulary does not have this token.");
  }
  return ids;
}

}  // namespace

std::vector<AddedToken> CompleteAddedTokens(std::vector<AddedToken> added,
                                            const TokenizerConfig& config,
                                            const TokenList& tokens) {
  std::unordered_map<std::string, int32_t> ids(tokens.begin(), tokens.end());
  std::unordered_set<std::string> there;
  int32_t next = 0;
  for (const auto& [text, id] : tokens) next = std::max(next, id + 1);
  const auto take = [&](const AddedToken& token) {
    there.insert(token.content);
    ids[token.content] = token.id;
    next = std::max(next, token.id + 1);
  };
  for (const AddedToken& token : added) take(token);
  for (const AddedToken& token : config.added) {
    if (there.contains(token.content)) {
      if (config.added_has_flags) OverrideFlags(token, added);
      continue;
    }
    take(token);
    added.push_back(token);
  }
  std::vector<AddedToken> special;
  for (const char* role : kRoleOrder) {
    const auto found = config.roles.find(role);
    if (found != config.roles.end()) special.push_back(found->second);
  }
  special.insert(special.end(), config.additional.begin(), config.additional.end());
  special.insert(special.end(), config.extra.begin(), config.extra.end());
  for (AddedToken& token : special) {
    if (there.contains(token.content)) continue;
    const auto known = ids.find(token.content);
    token.id = known == ids.end() ? next : known->second;
    take(token);
    added.push_back(token);
  }
  return added;
}

std::unique_ptr<Tokenizer> MakeBytePair(const Path& file,
                                        BytePairParts parts,
                                        const TokenizerConfig& config,
                                        BytePairOptions options) {
  Vocabulary vocabulary(std::move(parts.tokens), std::move(parts.added));
  for (int byte = 0; byte < 256 && parts.needs_all_bytes; ++byte) {
    std::string spelling;
    AppendCharacter(AlphabetCharacter(static_cast<uint8_t>(byte)), spelling);
    if (vocabulary.Find(spelling) >= 0) continue;
    throw UnsupportedTokenizer(file, "Its BPE model has an unk_token and no token for the byte " +
                                         std::to_string(byte) + ", which is not supported.");
  }
  std::vector<Merge> merges;
  merges.reserve(parts.merges.size());
  for (const auto& [left, right] : parts.merges) {
    const Merge merge{.left = vocabulary.Find(left),
                      .right = vocabulary.Find(right),
                      .result = vocabulary.Find(left + right)};
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      throw BrokenTokenizer(
          file, "The merge of \"" + left + "\" and \"" + right +
                    "\" needs both tokens and their result, but the vocabulary lacks one of them.");
    }
    merges.push_back(merge);
  }
  options.special =
      SpecialIdsOf(config.roles, [&](const std::string& token) { return vocabulary.Find(token); });
  options.special.before = IdsOf(file, parts.frame.before, vocabulary);
  options.special.after = IdsOf(file, parts.frame.after, vocabulary);
  return std::make_unique<BytePair>(std::move(vocabulary), merges, options);
}

std::unique_ptr<Tokenizer> MakeWordPiece(const Path& file,
                                         TokenList tokens,
                                         std::vector<AddedToken> added,
                                         const TokenizerConfig& config,
                                         const std::string& unknown,
                                         WordPieceOptions options) {
  Vocabulary vocabulary(std::move(tokens), std::move(added));
  options.special =
      SpecialIdsOf(config.roles, [&](const std::string& token) { return vocabulary.Find(token); });
  options.special.unknown = vocabulary.Find(unknown);
  if (options.special.unknown < 0) {
    throw BrokenTokenizer(
        file, "The token for unknown words, \"" + unknown + "\", is not in the vocabulary.");
  }
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(options));
}

std::pair<std::string, std::string> SplitMerge(const Path& file, const std::string& line) {
  const size_t blank = line.find(' ');
  if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos) {
    throw BrokenTokenizer(file, "The merge \"" + line.substr(0, 200) + "\" is not two tokens.");
  }
  return {line.substr(0, blank), line.substr(blank + 1)};
}

}  // namespace ddprun::trainer
