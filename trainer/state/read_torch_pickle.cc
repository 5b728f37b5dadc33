#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>

#include "trainer/state/torch_pickle.h"

namespace ddprun::trainer {

namespace {

// Limits for decoded values, because a few bytes of pickle can repeat a list many times.
constexpr int kMaxDepth = 32;
constexpr size_t kMaxValues = 10'000'000;
constexpr size_t kMaxVisits = 2'000'000;
constexpr size_t kMaxNameBytes = size_t{64} << 20;

constexpr std::array<std::string_view, 5> kFunctions = {
    "collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state", "torch.Size"};

// Returns whether `name` is such as "torch.FloatStorage".
bool IsStorage(std::string_view name) {
  constexpr std::string_view kModule = "torch.";
  return name.starts_with(kModule) && name.ends_with("Storage") &&
         std::ranges::all_of(name.substr(kModule.size()),
                             [](unsigned char letter) { return std::isalnum(letter) != 0; });
}

struct Bad {
  std::string what;
  std::string hint = {};
};

struct Value {
  // clang-format off
  enum class Kind { kNone, kBool, kInt, kFloat, kText, kTuple, kList, kDict, kGlobal, kStorage,
                    kTensor };
  // clang-format on
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // also of a bool
  double number = 0;
  std::string text = {};                  // also a global's name
  std::vector<Value*> items = {};         // of a dict: key, value, key, value
  const PickledTensor* tensor = nullptr;  // of a storage: without offset, shape and strides
};
using Kind = Value::Kind;

const Value& Expect(const Value* value, Kind kind) {
  if (value->kind != kind) throw Bad{"a part of a tensor has the wrong type"};
  return *value;
}

std::vector<int64_t> Integers(const Value* tuple) {
  std::vector<int64_t> numbers;
  for (const Value* item : Expect(tuple, Kind::kTuple).items) {
    numbers.push_back(Expect(item, Kind::kInt).integer);
  }
  return numbers;
}

// A stack machine that runs the pickle. It owns all values, because they may form cycles.
class Machine {
 public:
  explicit Machine(std::string_view bytes) : rest_(bytes) {}

  // Throws Bad.
  const Value& Run() {
    while (true) {
      const char op = Take(1).front();
      if (op == '.') break;
      if (!Scalar(op) && !Container(op) && !Memo(op)) {
        throw Bad{"it has the instruction " + std::to_string(static_cast<unsigned char>(op)) +
                  ", which state dicts do not need"};
      }
    }
    const Value* result = Pop();
    if (!stack_.empty() || !rest_.empty()) throw Bad{"bytes follow its end"};
    return *result;
  }

 private:
  std::string_view Take(uint64_t count) {
    if (count > rest_.size()) throw Bad{"it ends in the middle"};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  // Reads a little-endian number of at most 8 bytes.
  uint64_t Number(size_t bytes) {
    uint64_t number = 0;
    const std::string_view taken = Take(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      number |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return number;
  }
  std::string Line() {
    const size_t end = rest_.find('\n');
    const std::string line(Take(end == rest_.npos ? rest_.size() + 1 : end));
    Take(1);
    return line;
  }

  Value& Push(Kind kind) {
    if (values_.size() == kMaxValues) throw Bad{"it has too many values"};
    stack_.push_back(&values_.emplace_back(Value{.kind = kind}));
    return *stack_.back();
  }
  void PushInteger(Kind kind, int64_t integer) { Push(kind).integer = integer; }
  Value* Pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      throw Bad{"it takes more values than it has"};
    }
    Value* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  Value* Top() {
    Value* value = Pop();
    stack_.push_back(value);
    return value;
  }
  std::vector<Value*> PopToMark() {
    if (marks_.empty()) throw Bad{"it takes more values than it has"};
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Value*> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }

  bool Scalar(char op);
  bool Container(char op);
  bool Memo(char op);
  void LongInteger();
  void Tuple(size_t count);
  void Add(Kind kind, const std::vector<Value*>& more);
  void Global(const std::string& module, const std::string& name);
  void Reduce();
  void RebuildTensor(const Value& arguments);
  void Storage();

  std::string_view rest_;
  std::deque<Value> values_;
  std::deque<PickledTensor> tensors_;
  std::vector<Value*> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, Value*> memo_;
};

// One opcode per line.
// clang-format off
bool Machine::Scalar(char op) {
  switch (op) {
    case 'N': Push(Kind::kNone); return true;
    case '\x88': PushInteger(Kind::kBool, 1); return true;
    case '\x89': PushInteger(Kind::kBool, 0); return true;
    case 'K': PushInteger(Kind::kInt, static_cast<int64_t>(Number(1))); return true;
    case 'M': PushInteger(Kind::kInt, static_cast<int64_t>(Number(2))); return true;
    case 'J': PushInteger(Kind::kInt, static_cast<int32_t>(Number(4))); return true;
    case '\x8a': LongInteger(); return true;
    case 'G': {
      uint64_t bits = 0;  // the only big-endian number
      for (const char byte : Take(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
      Push(Kind::kFloat).number = std::bit_cast<double>(bits);
      return true;
    }
    case 'X': Push(Kind::kText).text = Take(Number(4)); return true;
    case '\x8c': Push(Kind::kText).text = Take(Number(1)); return true;
    default: return false;
  }
}

void Machine::LongInteger() {
  const uint64_t bytes = Number(1);
  if (bytes > 8) throw Bad{"it has a number of more than 64 bits"};
  uint64_t number = Number(bytes);
  const bool negative = bytes > 0 && number >> (8 * bytes - 1) != 0;
  if (negative && bytes < 8) number |= ~uint64_t{0} << (8 * bytes);
  PushInteger(Kind::kInt, static_cast<int64_t>(number));
}

bool Machine::Container(char op) {
  switch (op) {
    case '(': marks_.push_back(stack_.size()); return true;
    case ')': Push(Kind::kTuple); return true;
    case ']': Push(Kind::kList); return true;
    case '}': Push(Kind::kDict); return true;
    case '\x85': Tuple(1); return true;
    case '\x86': Tuple(2); return true;
    case '\x87': Tuple(3); return true;
    case 't': {
      std::vector<Value*> items = PopToMark();
      Push(Kind::kTuple).items = std::move(items);
      return true;
    }
    case 'a': Add(Kind::kList, {Pop()}); return true;
    case 'e': Add(Kind::kList, PopToMark()); return true;
    case 's': {
      Value* value = Pop();
      Value* key = Pop();
      Add(Kind::kDict, {key, value});
      return true;
    }
    case 'u': Add(Kind::kDict, PopToMark()); return true;
    default: return false;
  }
}

void Machine::Tuple(size_t count) {
  std::vector<Value*> items(count);
  for (size_t i = count; i > 0; --i) items[i - 1] = Pop();
  Push(Kind::kTuple).items = std::move(items);
}

void Machine::Add(Kind kind, const std::vector<Value*>& more) {
  Value* target = Top();
  if (target->kind != kind || (kind == Kind::kDict && more.size() % 2 != 0)) {
    throw Bad{"it adds to something else than a list or dict"};
  }
  target->items.insert(target->items.end(), more.begin(), more.end());
}

bool Machine::Memo(char op) {
  const auto get = [this](uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) throw Bad{"it refers to a value that it does not have"};
    stack_.push_back(found->second);
  };
  switch (op) {
    case '\x80':
      if (Number(1) > 5) throw Bad{"its protocol is newer than 5"};
      return true;
    case '\x95': Number(8); return true;  // the length of the next frame, not needed
    case 'q': memo_[Number(1)] = Top(); return true;
    case 'r': memo_[Number(4)] = Top(); return true;
    case '\x94': memo_[memo_.size()] = Top(); return true;
    case 'h': get(Number(1)); return true;
    case 'j': get(Number(4)); return true;
    case 'c': {
      const std::string module = Line();
      Global(module, Line());
      return true;
    }
    case '\x93': {
      const Value* name = Pop();
      Global(Expect(Pop(), Kind::kText).text, Expect(name, Kind::kText).text);
      return true;
    }
    case 'R': Reduce(); return true;
    case 'b':
      // Attributes of a dict, such as "_metadata" of PyTorch's modules.
      if (Pop()->kind != Kind::kDict || Top()->kind != Kind::kDict) {
        throw Bad{"it sets attributes of something else than a dict"};
      }
      return true;
    case 'Q': Storage(); return true;
    default: return false;
  }
}
// clang-format on

void Machine::Global(const std::string& module, const std::string& name) {
  const std::string full = module + "." + name;
  if (std::ranges::find(kFunctions, full) == kFunctions.end() && !IsStorage(full)) {
    throw Bad{"it holds more than a state dict: \"" + full + "\"",
              "Only tensors, numbers, texts, dicts and lists are read; a class or function could "
              "run\ncode. Save the state dict alone: torch.save(model.state_dict(), path)."};
  }
  Push(Kind::kGlobal).text = full;
}

void Machine::Reduce() {
  const Value& arguments = Expect(Pop(), Kind::kTuple);
  const std::string& function = Expect(Pop(), Kind::kGlobal).text;
  const size_t count = arguments.items.size();
  if (function == "torch._utils._rebuild_tensor_v2") return RebuildTensor(arguments);
  if (function == "collections.OrderedDict" && count == 0) {
    Push(Kind::kDict);
  } else if (function.starts_with("torch._utils._rebuild_parameter") && count >= 3) {
    Expect(arguments.items[0], Kind::kTensor);
    stack_.push_back(arguments.items[0]);
  } else if (function == "torch.Size" && count == 1) {
    Expect(arguments.items[0], Kind::kTuple);
    stack_.push_back(arguments.items[0]);
  } else {
    throw Bad{"it calls \"" + function + "\" with arguments that state dicts do not have"};
  }
}

void Machine::RebuildTensor(const Value& arguments) {
  const std::vector<Value*>& items = arguments.items;
  if (items.size() < 6) throw Bad{"a tensor lacks a part"};
  PickledTensor tensor = *Expect(items[0], Kind::kStorage).tensor;
  tensor.offset = Expect(items[1], Kind::kInt).integer;
  tensor.shape = Integers(items[2]);
  tensor.strides = Integers(items[3]);
  if (tensor.shape.size() != tensor.strides.size()) throw Bad{"a tensor has too few strides"};
  Push(Kind::kTensor).tensor = &tensors_.emplace_back(std::move(tensor));
}

// Reads ("storage", type, name, device, elements).
void Machine::Storage() {
  const std::vector<Value*>& items = Expect(Pop(), Kind::kTuple).items;
  if (items.size() != 5 || Expect(items[0], Kind::kText).text != "storage") {
    throw Bad{"it refers to something else than a storage"};
  }
  const std::string& type = Expect(items[1], Kind::kGlobal).text;
  if (!IsStorage(type)) throw Bad{"\"" + type + "\" is no type of a storage"};
  PickledTensor storage = {.storage = Expect(items[2], Kind::kText).text,
                           .storage_type = type.substr(type.find('.') + 1),
                           .storage_size = Expect(items[4], Kind::kInt).integer};
  Push(Kind::kStorage).tensor = &tensors_.emplace_back(std::move(storage));
}

class Flattener {
 public:
  PickledState Take(const Value& top) {
    if (top.kind != Kind::kDict) throw Bad{"it is no dict"};
    Visit(top, "", 0);
    for (size_t i = 0; i + 1 < top.items.size(); i += 2) {
      if (IsContainer(*top.items[i + 1])) state_.sections.push_back(KeyText(*top.items[i]));
    }
    return std::move(state_);
  }

 private:
  static bool IsContainer(const Value& value) {
    return value.kind == Kind::kDict || value.kind == Kind::kList || value.kind == Kind::kTuple;
  }
  static std::string KeyText(const Value& key) {
    if (key.kind == Kind::kInt) return std::to_string(key.integer);
    if (key.kind == Kind::kText) return key.text;
    throw Bad{"a key of a dict is neither a text nor a number"};
  }

  void Visit(const Value& value, const std::string& name, int depth) {
    if (depth > kMaxDepth || ++visits_ > kMaxVisits) throw Bad{"its lists go too deep"};
    const size_t step = value.kind == Kind::kDict ? 2 : 1;
    for (size_t i = 0; IsContainer(value) && i < value.items.size(); i += step) {
      const std::string key = step == 2 ? KeyText(*value.items[i]) : std::to_string(i);
      name_bytes_ += name.size() + key.size();
      if (name_bytes_ > kMaxNameBytes) throw Bad{"its names are too long"};
      Visit(*value.items[i + step - 1], depth == 0 ? key : name + "." + key, depth + 1);
    }
    const auto leaf = Leaf(value);
    if (!leaf) return;
    if (!names_.insert(name).second) throw Bad{"\"" + name + "\" comes twice"};
    state_.values.emplace_back(name, *leaf);
  }

  static std::optional<PickledValue> Leaf(const Value& value) {
    switch (value.kind) {
      case Kind::kTensor:
        return *value.tensor;
      case Kind::kInt:
        return value.integer;
      case Kind::kFloat:
        return value.number;
      case Kind::kBool:
        return value.integer != 0;
      case Kind::kText:
        return value.text;
      default:
        return std::nullopt;
    }
  }

  PickledState state_;
  std::set<std::string> names_;
  size_t visits_ = 0;
  size_t name_bytes_ = 0;
};

}  // namespace

Result<PickledState> ReadPickledState(std::string_view bytes) {
  try {
    Machine machine(bytes);
    return Flattener().Take(machine.Run());
  } catch (const Bad& bad) {
    Error error;
    error.what = bad.what;
    error.hint = bad.hint;
    return error;
  }
}

}  // namespace ddprun::trainer
