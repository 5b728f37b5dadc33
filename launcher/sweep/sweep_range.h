// Ranges of a sweep, from which the runs draw values at random.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace ddprun::launcher {

// "uniform(A,B)", "loguniform(A,B)" (the logarithm is uniform), or "integers(A,B)" (B included).
class SweepRange {
 public:
  // Returns nullopt if the text does not begin with one of these names and "(".
  static std::optional<SweepRange> In(const std::string& text);

  // Returns the reason why nothing can be drawn; "" means that something can.
  const std::string& problem() const { return problem_; }
  // Returns a value as text, of four digits unless it is whole. `share` is from 0 to below 1.
  // REQUIRES: no problem.
  std::string At(double share) const;

 private:
  enum class Kind { kUniform, kLogUniform, kIntegers };

  Kind kind_ = Kind::kUniform;
  double low_ = 0;
  double high_ = 0;
  std::string problem_;
};

// Draws numbers from 0 to below 1, the same for a seed on every machine.
class SweepDraws {
 public:
  explicit SweepDraws(uint64_t seed) : engine_(seed) {}

  double Next() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace ddprun::launcher
