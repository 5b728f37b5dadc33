#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>

#include "base/pickle_machine.h"
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

using Kind = PickleValue::Kind;

const PickleValue& Expect(const PickleValue& value, Kind kind) {
  if (value.kind != kind) throw BadPickle{"a part of a tensor has the wrong type"};
  return value;
}

std::vector<int64_t> Integers(const PickleValue& tuple) {
  std::vector<int64_t> numbers;
  for (const PickleValue* item : Expect(tuple, Kind::kTuple).items) {
    numbers.push_back(Expect(*item, Kind::kInt).integer);
  }
  return numbers;
}

// Adds tensors and their storages, which are objects of a pickle.
class Machine final : public PickleMachine {
 public:
  explicit Machine(std::string_view bytes) : PickleMachine(bytes, kMaxValues) {}

  // Returns nullptr if the value is no tensor.
  const PickledTensor* TensorOf(const PickleValue& value) const {
    if (value.kind != Kind::kObject) return nullptr;
    const Object& object = objects_[value.object];
    return object.is_tensor ? &object.tensor : nullptr;
  }

 private:
  struct Object {
    PickledTensor tensor;  // of a storage: without offset, shape and strides
    bool is_tensor;
  };

  void CheckGlobal(const std::string& name) override;
  PickleValue* Call(const PickleValue& function, const PickleValue& arguments) override;
  PickleValue* Persistent(const PickleValue& id) override;
  PickleValue* RebuildTensor(const std::vector<PickleValue*>& items);
  PickleValue* MakeObject(Object object) {
    PickleValue* const value = Make(Kind::kObject);
    value->object = objects_.size();
    objects_.push_back(std::move(object));
    return value;
  }

  std::vector<Object> objects_;
};

void Machine::CheckGlobal(const std::string& name) {
  if (std::ranges::find(kFunctions, name) != kFunctions.end() || IsStorage(name)) return;
  throw BadPickle{"it holds more than a state dict: \"" + name + "\"",
                  "Only tensors, numbers, texts, dicts and lists are read; a class or function "
                  "could run\ncode. Save the state dict alone: torch.save(model.state_dict(), "
                  "path)."};
}

PickleValue* Machine::Call(const PickleValue& callee, const PickleValue& arguments) {
  const std::string_view function = Expect(callee, Kind::kGlobal).text;
  const std::vector<PickleValue*>& items = Expect(arguments, Kind::kTuple).items;
  if (function == "torch._utils._rebuild_tensor_v2") return RebuildTensor(items);
  if (function == "collections.OrderedDict" && items.empty()) return Make(Kind::kDict);
  if (function.starts_with("torch._utils._rebuild_parameter") && items.size() >= 3) {
    if (TensorOf(*items[0]) == nullptr) throw BadPickle{"a parameter is no tensor"};
    return items[0];
  }
  if (function == "torch.Size" && items.size() == 1) {
    Expect(*items[0], Kind::kTuple);
    return items[0];
  }
  throw BadPickle{"it calls \"" + std::string(function) +
                  "\" with arguments that state dicts do not have"};
}

PickleValue* Machine::RebuildTensor(const std::vector<PickleValue*>& items) {
  if (items.size() < 6) throw BadPickle{"a tensor lacks a part"};
  const Object& storage = objects_[Expect(*items[0], Kind::kObject).object];
  if (storage.is_tensor) throw BadPickle{"a tensor has no storage"};
  PickledTensor tensor = storage.tensor;
  tensor.offset = Expect(*items[1], Kind::kInt).integer;
  tensor.shape = Integers(*items[2]);
  tensor.strides = Integers(*items[3]);
  if (tensor.shape.size() != tensor.strides.size()) throw BadPickle{"a tensor has too few strides"};
  return MakeObject({std::move(tensor), /*is_tensor=*/true});
}

// Reads ("storage", type, name, device, elements).
PickleValue* Machine::Persistent(const PickleValue& id) {
  const std::vector<PickleValue*>& items = Expect(id, Kind::kTuple).items;
  if (items.size() != 5 || Expect(*items[0], Kind::kText).text != "storage") {
    throw BadPickle{"it refers to something else than a storage"};
  }
  const std::string type(Expect(*items[1], Kind::kGlobal).text);
  if (!IsStorage(type)) throw BadPickle{"\"" + type + "\" is no type of a storage"};
  return MakeObject({{.storage = std::string(Expect(*items[2], Kind::kText).text),
                      .storage_type = type.substr(type.find('.') + 1),
                      .storage_size = Expect(*items[4], Kind::kInt).integer},
                     /*is_tensor=*/false});
}

class Flattener {
 public:
  explicit Flattener(const Machine& machine) : machine_(machine) {}

  PickledState Take(const PickleValue& top) {
    if (top.kind != Kind::kDict) throw BadPickle{"it is no dict"};
    Visit(top, "", 0);
    for (size_t i = 0; i + 1 < top.items.size(); i += 2) {
      if (top.items[i + 1]->holds_items()) state_.sections.push_back(KeyText(*top.items[i]));
    }
    return std::move(state_);
  }

 private:
  static std::string KeyText(const PickleValue& key) {
    if (key.kind == Kind::kInt) return std::to_string(key.integer);
    if (key.kind == Kind::kText) return std::string(key.text);
    throw BadPickle{"a key of a dict is neither a text nor a number"};
  }

  void Visit(const PickleValue& value, const std::string& name, int depth) {
    if (depth > kMaxDepth || ++visits_ > kMaxVisits) throw BadPickle{"its lists go too deep"};
    const size_t step = value.kind == Kind::kDict ? 2 : 1;
    for (size_t i = 0; value.holds_items() && i < value.items.size(); i += step) {
      const std::string key = step == 2 ? KeyText(*value.items[i]) : std::to_string(i);
      name_bytes_ += name.size() + key.size();
      if (name_bytes_ > kMaxNameBytes) throw BadPickle{"its names are too long"};
      Visit(*value.items[i + step - 1], depth == 0 ? key : name + "." + key, depth + 1);
    }
    const auto leaf = Leaf(value);
    if (!leaf) return;
    if (!names_.insert(name).second) throw BadPickle{"\"" + name + "\" comes twice"};
    state_.values.emplace_back(name, *leaf);
  }

  std::optional<PickledValue> Leaf(const PickleValue& value) const {
    if (const PickledTensor* tensor = machine_.TensorOf(value)) return *tensor;
    switch (value.kind) {
      case Kind::kInt:
        return value.integer;
      case Kind::kFloat:
        return value.number;
      case Kind::kBool:
        return value.integer != 0;
      case Kind::kText:
        return std::string(value.text);
      default:
        return std::nullopt;
    }
  }

  const Machine& machine_;
  PickledState state_;
  std::set<std::string> names_;
  size_t visits_ = 0;
  size_t name_bytes_ = 0;
};

}  // namespace

Result<PickledState> ReadPickledState(std::string_view bytes) {
  try {
    Machine machine(bytes);
    return Flattener(machine).Take(machine.Run());
  } catch (const BadPickle& bad) {
    Error error;
    error.what = bad.what;
    error.hint = bad.hint;
    return error;
  }
}

}  // namespace ddprun::trainer
