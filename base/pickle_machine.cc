#include "base/pickle_machine.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace ddprun {

namespace {

constexpr size_t kLookedAtKeys = 64;
constexpr uint64_t kNewestProtocol = 5;

}  // namespace

const PickleValue& PickleValue::operator[](std::string_view key) const {
  static const PickleValue none;
  if (kind != Kind::kDict) return none;
  for (size_t i = 0; i + 1 < std::min(items.size(), 2 * kLookedAtKeys); i += 2) {
    if (items[i]->kind == Kind::kText && items[i]->text == key) return *items[i + 1];
  }
  return none;
}

const PickleValue& PickleMachine::Run() {
  while (true) {
    const char op = Take(1).front();
    if (op == '.') break;
    if (!Scalar(op) && !Container(op) && !Memo(op) && !Object(op)) {
      throw BadPickle{"it has the instruction " + std::to_string(static_cast<unsigned char>(op)) +
                      ", which is not needed here"};
    }
  }
  const PickleValue* result = Pop();
  if (!stack_.empty() || !rest_.empty()) throw BadPickle{"bytes follow its end"};
  return *result;
}

void PickleMachine::CheckGlobal(const std::string& name) {
  throw BadPickle{"it names \"" + name + "\", a class or function"};
}

PickleValue* PickleMachine::Call(const PickleValue& /*function*/,
                                 const PickleValue& /*arguments*/) {
  throw BadPickle{"it calls a function"};
}

PickleValue* PickleMachine::Persistent(const PickleValue& /*id*/) {
  throw BadPickle{"it refers to something outside of it"};
}

PickleValue* PickleMachine::Make(Kind kind, int64_t integer) {
  if (values_.size() == max_values_) throw BadPickle{"it has too many values"};
  return &values_.emplace_back(PickleValue{.kind = kind, .integer = integer});
}

std::string_view PickleMachine::Take(uint64_t count) {
  if (count > rest_.size()) throw BadPickle{"it ends in the middle"};
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

// Reads a little-endian number of at most 8 bytes.
uint64_t PickleMachine::Number(size_t bytes) {
  uint64_t number = 0;
  const std::string_view taken = Take(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    number |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
  }
  return number;
}

// Reads a number that may be negative.
int64_t PickleMachine::Signed(size_t bytes) {
  if (bytes > 8) throw BadPickle{"it has a number of more than 64 bits"};
  if (bytes == 0) return 0;
  const size_t unused_bits = 64 - 8 * bytes;
  return static_cast<int64_t>(Number(bytes) << unused_bits) >> unused_bits;
}

std::string PickleMachine::Line() {
  const size_t end = rest_.find('\n');
  const std::string line(Take(end == rest_.npos ? rest_.size() + 1 : end));
  Take(1);
  return line;
}

bool PickleMachine::Push(PickleValue* value) {
  stack_.push_back(value);
  return true;
}

bool PickleMachine::PushText(std::string_view text) {
  PickleValue* const value = Make(Kind::kText);
  value->text = text;
  return Push(value);
}

PickleValue* PickleMachine::Pop() {
  PickleValue* const value = Top();
  stack_.pop_back();
  return value;
}

PickleValue* PickleMachine::Top() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
    throw BadPickle{"it takes more values than it has"};
  }
  return stack_.back();
}

std::vector<PickleValue*> PickleMachine::PopToMark() {
  if (marks_.empty()) throw BadPickle{"it takes more values than it has"};
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleValue*> values(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return values;
}

std::vector<PickleValue*> PickleMachine::PopCount(size_t count) {
  std::vector<PickleValue*> items(count);
  for (size_t i = count; i > 0; --i) items[i - 1] = Pop();
  return items;
}

bool PickleMachine::Tuple(std::vector<PickleValue*> items) {
  PickleValue* const tuple = Make(Kind::kTuple);
  tuple->items = std::move(items);
  return Push(tuple);
}

bool PickleMachine::Add(Kind kind, const std::vector<PickleValue*>& more) {
  PickleValue* const target = Top();
  if (target->kind != kind || (kind == Kind::kDict && more.size() % 2 != 0)) {
    throw BadPickle{"it adds to something else than a list or dict"};
  }
  target->items.insert(target->items.end(), more.begin(), more.end());
  return true;
}

bool PickleMachine::Remember(uint64_t index) {
  memo_[index] = Top();
  return true;
}

bool PickleMachine::Repeat(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) throw BadPickle{"it refers to a value that it does not have"};
  return Push(found->second);
}

bool PickleMachine::Global(const std::string& name) {
  CheckGlobal(name);
  PickleValue* const global = Make(Kind::kGlobal);
  global->text = names_.emplace_back(name);
  return Push(global);
}

// One opcode per line.
// clang-format off
bool PickleMachine::Scalar(char op) {
  switch (op) {
    case 'N': return Push(Make(Kind::kNone));
    case '\x88': return Push(Make(Kind::kBool, 1));
    case '\x89': return Push(Make(Kind::kBool, 0));
    case 'K': return Push(Make(Kind::kInt, static_cast<int64_t>(Number(1))));
    case 'M': return Push(Make(Kind::kInt, static_cast<int64_t>(Number(2))));
    case 'J': return Push(Make(Kind::kInt, Signed(4)));
    case '\x8a': return Push(Make(Kind::kInt, Signed(Number(1))));
    case 'G': {
      uint64_t bits = 0;  // the only big-endian number
      for (const char byte : Take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
      PickleValue* const value = Make(Kind::kFloat);
      value->number = std::bit_cast<double>(bits);
      return Push(value);
    }
    case 'X': return PushText(Take(Number(4)));
    case '\x8c': return PushText(Take(Number(1)));
    default: return false;
  }
}

bool PickleMachine::Container(char op) {
  switch (op) {
    case '(': marks_.push_back(stack_.size()); return true;
    case ')': return Push(Make(Kind::kTuple));
    case ']': return Push(Make(Kind::kList));
    case '}': return Push(Make(Kind::kDict));
    case '\x85': return Tuple(PopCount(1));
    case '\x86': return Tuple(PopCount(2));
    case '\x87': return Tuple(PopCount(3));
    case 't': return Tuple(PopToMark());
    case 'a': return Add(Kind::kList, PopCount(1));
    case 'e': return Add(Kind::kList, PopToMark());
    case 's': return Add(Kind::kDict, PopCount(2));
    case 'u': return Add(Kind::kDict, PopToMark());
    default: return false;
  }
}

bool PickleMachine::Memo(char op) {
  switch (op) {
    case '\x80':
      if (Number(1) > kNewestProtocol) throw BadPickle{"its protocol is newer than 5"};
      return true;
    case '\x95': Number(8); return true;  // the length of the next frame, not needed
    case 'q': return Remember(Number(1));
    case 'r': return Remember(Number(4));
    case '\x94': return Remember(memo_.size());
    case 'h': return Repeat(Number(1));
    case 'j': return Repeat(Number(4));
    default: return false;
  }
}
// clang-format on

bool PickleMachine::Object(char op) {
  switch (op) {
    case 'c': {
      const std::string module = Line();
      return Global(module + "." + Line());
    }
    case '\x93': {
      const std::vector<PickleValue*> names = PopCount(2);
      for (const PickleValue* name : names) {
        if (name->kind != Kind::kText) throw BadPickle{"the name of a class is no text"};
      }
      return Global(std::string(names[0]->text) + "." + std::string(names[1]->text));
    }
    case 'R': {
      const std::vector<PickleValue*> call = PopCount(2);
      return Push(Call(*call[0], *call[1]));
    }
    case 'b':
      // Attributes of a dict, such as "_metadata" of PyTorch's modules.
      if (Pop()->kind != Kind::kDict || Top()->kind != Kind::kDict) {
        throw BadPickle{"it sets attributes of something else than a dict"};
      }
      return true;
    case 'Q':
      return Push(Persistent(*Pop()));
    default:
      return false;
  }
}

}  // namespace ddprun
