#include "base/node_list.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/text.h"

namespace ddprun {

namespace {

constexpr size_t kMaxDigits = 18;     // of a number, so that it fits into an int64_t
constexpr size_t kMaxHostName = 255;  // characters, so that a list cannot fill the memory

class NodeListParser {
 public:
  NodeListParser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Result<std::vector<std::string>> Parse() {
    while (at_ < text_.size()) {
      SkipBlanks();
      DDPRUN_TRY(ReadItem());
    }
    if (names_.empty()) return Bad("a name");
    return std::move(names_);
  }

 private:
  // Reads one name with its brackets, and the comma behind it.
  Status ReadItem() {
    std::vector<std::string> names = {""};
    for (; at_ < text_.size() && text_[at_] != ','; ++at_) {
      const char c = text_[at_];
      if (names.front().size() > kMaxHostName) return TooLong();
      if (c == '[') {
        DDPRUN_TRY(ReadBracket(names));
      } else if (c == ']' || c <= ' ' || c == '(' || c == ')') {
        const size_t rest = text_.find_first_not_of(' ', at_);
        if (c != ' ' || (rest != text_.npos && text_[rest] != ',')) return Bad("a name or ','");
      } else {
        for (std::string& name : names) name += c;
      }
    }
    if (std::ranges::any_of(names, [](const auto& name) { return name.size() > kMaxHostName; })) {
      return TooLong();
    }
    ++at_;
    if (names.front().empty()) return {};
    if (names_.size() + names.size() > kMaxNodeNames) return TooMany();
    std::ranges::move(names, std::back_inserter(names_));
    return {};
  }

  // Reads "[01-03,7]" and gives each name each number. Stops at the closing bracket.
  Status ReadBracket(std::vector<std::string>& names) {
    std::vector<std::string> numbers;
    do {
      ++at_;
      const size_t begin = at_;
      DDPRUN_ASSIGN(const std::string first, ReadNumber());
      if (Next() != '-') {
        numbers.push_back(first);
      } else {
        ++at_;
        DDPRUN_ASSIGN(const std::string last, ReadNumber());
        const int64_t low = *ParseInt(first);
        const int64_t high = *ParseInt(last);
        if (high < low) return At(begin).Bad("a range that grows");
        if (high - low >= static_cast<int64_t>(kMaxNodeNames)) return TooMany();
        for (int64_t i = low; i <= high; ++i) numbers.push_back(Padded(i, first.size()));
      }
    } while (Next() == ',');
    if (Next() != ']') return Bad("a number, '-', ',' or ']'");
    if (names.size() * numbers.size() > kMaxNodeNames) return TooMany();
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    return {};
  }

  Result<std::string> ReadNumber() {
    const size_t begin = at_;
    while (Next() >= '0' && Next() <= '9') ++at_;
    if (at_ == begin) return Bad("a number");
    if (at_ - begin > kMaxDigits) return At(begin).Bad("a number of at most 18 digits");
    return std::string(text_.substr(begin, at_ - begin));
  }

  static std::string Padded(int64_t number, size_t width) {
    const std::string digits = std::to_string(number);
    return std::string(width - std::min(width, digits.size()), '0') + digits;
  }

  char Next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipBlanks() { at_ = std::min(text_.find_first_not_of(' ', at_), text_.size()); }

  NodeListParser& At(size_t position) {
    at_ = position;
    return *this;
  }

  Error TooLong() const { return Bad("names of at most 255 characters"); }
  Error TooMany() const { return Bad("at most " + std::to_string(kMaxNodeNames) + " names"); }

  Error Bad(const std::string& expected) const {
    // Shows the list around the place only, because it may be long and may hold anything.
    constexpr size_t kAround = 50;
    const size_t begin = at_ > kAround ? at_ - kAround : 0;
    std::string shown(text_.substr(begin, 2 * kAround));
    std::ranges::replace_if(
        shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return Error{.code = Code::kUsage,
                 .title = "NODE LIST NOT UNDERSTOOD",
                 .where = std::string(where_),
                 .what = shown + "\n" + std::string(at_ - begin, ' ') + "^ expected " + expected,
                 .hint =
                     "Give the nodes yourself: --nnodes=N --rdzv_backend=c10d "
                     "--rdzv_endpoint=HOST_OF_THE_FIRST:PORT.",
                 .page = "node-list"};
  }

  std::string_view text_;
  std::string_view where_;
  size_t at_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

Result<std::vector<std::string>> ParseNodeList(std::string_view text, std::string_view where) {
  return NodeListParser(text, where).Parse();
}

}  // namespace ddprun
