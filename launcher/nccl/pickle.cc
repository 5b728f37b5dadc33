#include "launcher/nccl/pickle.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ddprun::launcher {

namespace {

using Kind = PickleValue::Kind;

// A record of 2,000 collectives has about 150,000 values.
constexpr size_t kMaxValues = 2'000'000;
constexpr size_t kLookedAtKeys = 64;

struct Bad {
  std::string what;
};

// A stack machine that runs the pickle.
class Machine {
 public:
  Machine(std::string_view bytes, std::deque<PickleValue>& values)
      : rest_(bytes), values_(values) {}

  // Throws Bad.
  const PickleValue* Run() {
    while (true) {
      const char op = Take(1).front();
      if (op == '.') break;
      if (!Scalar(op) && !Container(op) && !Memo(op)) {
        throw Bad{"it has the instruction " + std::to_string(static_cast<unsigned char>(op)) +
                  ", which PyTorch's flight recorder does not use"};
      }
    }
    const PickleValue* result = Pop();
    if (!stack_.empty() || !rest_.empty()) throw Bad{"bytes follow its end"};
    return result;
  }

 private:
  std::string_view Take(size_t count) {
    if (count > rest_.size()) throw Bad{"it ends in the middle"};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  // Reads a little-endian number of at most 8 bytes.
  uint64_t Number(size_t bytes) {
    const std::string_view taken = Take(bytes);
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; ++i) {
      number |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return number;
  }

  // Reads a number of at most 8 bytes that may be negative.
  int64_t Signed(size_t bytes) {
    if (bytes == 0 || bytes > 8) throw Bad{"it has an integer of a size that is not supported"};
    const size_t unused_bits = 64 - 8 * bytes;
    return static_cast<int64_t>(Number(bytes) << unused_bits) >> unused_bits;
  }

  PickleValue& Push(Kind kind, int64_t integer = 0) {
    if (values_.size() == kMaxValues) throw Bad{"it has too many values"};
    stack_.push_back(&values_.emplace_back(PickleValue{.kind = kind, .integer = integer}));
    return *stack_.back();
  }

  PickleValue* Top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      throw Bad{"it takes more values than it has"};
    }
    return stack_.back();
  }

  PickleValue* Pop() {
    PickleValue* const value = Top();
    stack_.pop_back();
    return value;
  }

  // Takes the values from `begin` on.
  std::vector<const PickleValue*> TakeFrom(size_t begin) {
    std::vector<const PickleValue*> items(stack_.begin() + static_cast<ptrdiff_t>(begin),
                                          stack_.end());
    stack_.resize(begin);
    return items;
  }

  std::vector<const PickleValue*> TakeSinceMark() {
    if (marks_.empty()) throw Bad{"it lacks a mark"};
    const size_t begin = marks_.back();
    marks_.pop_back();
    return TakeFrom(begin);
  }

  // Adds the values since the mark to the list or dict below it.
  void Add(Kind kind) {
    const std::vector<const PickleValue*> items = TakeSinceMark();
    PickleValue* const container = Top();
    if (container->kind != kind) throw Bad{"it adds to what is no container"};
    if (kind == Kind::kDict && items.size() % 2 != 0) throw Bad{"a key has no value"};
    container->items.insert(container->items.end(), items.begin(), items.end());
  }

  bool Scalar(char op) {
    switch (op) {
      case '\x80':  // PROTO
        if (Number(1) != 2) throw Bad{"it is not of pickle's protocol 2"};
        return true;
      case 'N':
        return Push(Kind::kNone), true;
      case '\x88':
      case '\x89':
        return Push(Kind::kBool, op == '\x88'), true;
      case 'K':
        return Push(Kind::kInt, static_cast<int64_t>(Number(1))), true;
      case 'M':
        return Push(Kind::kInt, static_cast<int64_t>(Number(2))), true;
      case 'J':
        return Push(Kind::kInt, Signed(4)), true;
      case '\x8a':
        return Push(Kind::kInt, Signed(Number(1))), true;
      case 'G':
        return Take(8), Push(Kind::kFloat), true;
      case 'X':
        return Push(Kind::kText).text = Take(Number(4)), true;
      default:
        return false;
    }
  }

  bool Container(char op) {
    switch (op) {
      case '(':
        return marks_.push_back(stack_.size()), true;
      case ']':
      case ')':
        return Push(Kind::kList), true;
      case '}':
        return Push(Kind::kDict), true;
      case 'e':
        return Add(Kind::kList), true;
      case 'u':
        return Add(Kind::kDict), true;
      case 't': {
        std::vector<const PickleValue*> items = TakeSinceMark();
        return Push(Kind::kList).items = std::move(items), true;
      }
      case '\x85':
      case '\x86':
      case '\x87': {
        const size_t count = static_cast<unsigned char>(op) - 0x84U;
        if (stack_.size() < count + (marks_.empty() ? 0 : marks_.back())) {
          throw Bad{"it takes more values than it has"};
        }
        std::vector<const PickleValue*> items = TakeFrom(stack_.size() - count);
        return Push(Kind::kList).items = std::move(items), true;
      }
      default:
        return false;
    }
  }

  // Keeps and repeats values. PyTorch numbers them one after the other.
  bool Memo(char op) {
    if (op == 'q' || op == 'r') {
      if (Number(op == 'q' ? 1 : 4) != memo_.size()) throw Bad{"its memo has gaps"};
      memo_.push_back(Top());
      return true;
    }
    if (op != 'h' && op != 'j') return false;
    const uint64_t number = Number(op == 'h' ? 1 : 4);
    if (number >= memo_.size()) throw Bad{"it repeats a value that it does not have"};
    stack_.push_back(memo_[number]);
    return true;
  }

  std::string_view rest_;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::vector<PickleValue*> memo_;
};

}  // namespace

const PickleValue& PickleValue::operator[](std::string_view key) const {
  static const PickleValue none;
  if (kind != Kind::kDict) return none;
  for (size_t i = 0; i + 1 < std::min(items.size(), 2 * kLookedAtKeys); i += 2) {
    if (items[i]->kind == Kind::kText && items[i]->text == key) return *items[i + 1];
  }
  return none;
}

Result<Pickle> Pickle::Read(std::string_view bytes) {
  Pickle pickle;
  try {
    pickle.root_ = Machine(bytes, pickle.values_).Run();
  } catch (const Bad& bad) {
    return Error{.what = bad.what};
  }
  return pickle;
}

}  // namespace ddprun::launcher
