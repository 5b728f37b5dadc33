// Result<T> is a value or an Error, with the names of C++23's std::expected. Code without LibTorch
// uses it; code with LibTorch throws (base/failure.h).
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include <ddprun/error.h>

namespace ddprun {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !has_value().
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return !error_.has_value(); }
  // REQUIRES: !ok().
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace ddprun

// Returns the error of a Status expression from the enclosing function.
#define DDPRUN_TRY(expression)                                               \
  do {                                                                       \
    if (auto ddprun_status = (expression); !ddprun_status.ok()) /* NOLINT */ \
      return std::move(ddprun_status).error();                               \
  } while (false)

#define DDPRUN_CONCAT_INNER(a, b) a##b
#define DDPRUN_CONCAT(a, b) DDPRUN_CONCAT_INNER(a, b)
#define DDPRUN_ASSIGN_IMPL(result, declaration, expression)  \
  auto result = (expression);                                \
  if (!result.has_value()) return std::move(result).error(); \
  declaration = *std::move(result)

// DDPRUN_ASSIGN(auto fd, Open(path)) assigns the value of a Result, or returns its error.
#define DDPRUN_ASSIGN(declaration, expression) \
  DDPRUN_ASSIGN_IMPL(DDPRUN_CONCAT(ddprun_result_, __LINE__), declaration, expression)
