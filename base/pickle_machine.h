// Reads pickles, Python's format for values: dicts, lists, tuples, texts and numbers. Executes
// nothing: a derived class decides what the names of classes and functions mean, if anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun {

struct PickleValue {
  // clang-format off
  enum class Kind { kNone, kBool, kInt, kFloat, kText, kTuple, kList, kDict, kGlobal, kObject };
  // clang-format on
  Kind kind = Kind::kNone;
  int64_t integer = 0;  // also of a bool
  double number = 0;
  std::string_view text = {};            // also a global's name: "collections.OrderedDict"
  std::vector<PickleValue*> items = {};  // of a dict: key, value, key, value
  size_t object = 0;                     // of an object: for the class that has made it

  bool holds_items() const {
    return kind == Kind::kTuple || kind == Kind::kList || kind == Kind::kDict;
  }
  // Returns a value of a dict; an empty value if there is none, or if this is no dict. Looks only
  // at the first keys, because a hostile dict may have millions.
  const PickleValue& operator[](std::string_view key) const;
};

// Why a pickle is refused.
struct BadPickle {
  std::string what;  // "it ends in the middle"
  std::string hint = {};
};

// A stack machine that runs a pickle. It owns all values, which may contain each other in cycles.
// Its methods throw BadPickle.
class PickleMachine {
 public:
  // `bytes` outlive it.
  PickleMachine(std::string_view bytes, size_t max_values)
      : rest_(bytes), max_values_(max_values) {}
  virtual ~PickleMachine() = default;
  PickleMachine(const PickleMachine&) = delete;
  PickleMachine& operator=(const PickleMachine&) = delete;

  // Call it once.
  const PickleValue& Run();

 protected:
  using Kind = PickleValue::Kind;

  // These three refuse. `name`: "torch.FloatStorage". A call and a persistent id return a value.
  virtual void CheckGlobal(const std::string& name);
  virtual PickleValue* Call(const PickleValue& function, const PickleValue& arguments);
  virtual PickleValue* Persistent(const PickleValue& id);

  PickleValue* Make(Kind kind, int64_t integer = 0);

 private:
  std::string_view Take(uint64_t count);
  uint64_t Number(size_t bytes);
  int64_t Signed(size_t bytes);
  std::string Line();
  bool Push(PickleValue* value);
  bool PushText(std::string_view text);
  PickleValue* Pop();
  PickleValue* Top();
  std::vector<PickleValue*> PopToMark();
  bool Tuple(std::vector<PickleValue*> items);
  std::vector<PickleValue*> PopCount(size_t count);
  bool Add(Kind kind, const std::vector<PickleValue*>& more);
  bool Remember(uint64_t index);
  bool Repeat(uint64_t index);
  bool Global(const std::string& name);
  bool Scalar(char op);
  bool Container(char op);
  bool Memo(char op);
  bool Object(char op);

  std::string_view rest_;
  const size_t max_values_;
  std::deque<PickleValue> values_;
  std::deque<std::string> names_;  // of globals
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

}  // namespace ddprun
