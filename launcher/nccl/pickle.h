// The part of Python's pickle that PyTorch's flight recorder writes: dicts, lists, tuples, texts
// and numbers. Executes nothing: a pickle that names a class or a function is refused.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddprun::launcher {

struct PickleValue {
  enum class Kind { kNone, kBool, kInt, kFloat, kText, kList, kDict };  // a tuple is a list
  Kind kind = Kind::kNone;
  int64_t integer = 0;                         // also of a bool; a float has no value here
  std::string_view text = {};                  // a part of the bytes that were read
  std::vector<const PickleValue*> items = {};  // of a dict: key, value, key, value

  // Returns a value of a dict; an empty value if there is none, or if this is no dict. Looks only
  // at the first keys, because a hostile dict may have millions.
  const PickleValue& operator[](std::string_view key) const;
};

// A pickle's values, which may contain each other in cycles.
class Pickle {
 public:
  // Throws nothing. An error has only `what`: "it ends in the middle". `bytes` outlive the result.
  static Result<Pickle> Read(std::string_view bytes);

  const PickleValue& root() const { return *root_; }

 private:
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace ddprun::launcher
