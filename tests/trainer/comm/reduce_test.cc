#include "trainer/comm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace ddprun::trainer {
namespace {

template <typename T>
std::vector<T> Reduce(DataType type, Reduction reduction, const std::vector<std::vector<T>>& in) {
  std::vector<const std::byte*> sources;
  for (const auto& array : in) sources.push_back(reinterpret_cast<const std::byte*>(array.data()));
  std::vector<T> out(in[0].size());
  std::vector<T> copy(in[0].size());
  std::byte* destinations[] = {reinterpret_cast<std::byte*>(out.data()),
                               reinterpret_cast<std::byte*>(copy.data())};
  ReduceArrays(type, reduction, sources, destinations, out.size());
  EXPECT_EQ(std::memcmp(out.data(), copy.data(), out.size() * sizeof(T)), 0);
  return out;
}

TEST(ReduceArrays, AddsInRankOrder) {
  // 1e8 + 1 is lost in fp32: any other order than the given one gives another sum.
  const std::vector<std::vector<float>> in = {{1e8F}, {1.0F}, {-1e8F}};
  EXPECT_EQ(Reduce(DataType::kFloat32, Reduction::kSum, in)[0], (1e8F + 1.0F) - 1e8F);
  EXPECT_EQ(Reduce(DataType::kFloat32, Reduction::kSum, in)[0], 0.0F);
}

TEST(ReduceArrays, EqualsAScalarLoopOnEveryLengthAroundABlock) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> value(-2, 2);
  for (const size_t length : {size_t{1}, size_t{15}, size_t{2047}, size_t{2048}, size_t{4099}}) {
    std::vector<std::vector<double>> in(3, std::vector<double>(length));
    for (auto& array : in) {
      for (double& x : array) x = value(random);
    }
    const auto sum = Reduce(DataType::kFloat64, Reduction::kSum, in);
    const auto average = Reduce(DataType::kFloat64, Reduction::kAvg, in);
    const auto product = Reduce(DataType::kFloat64, Reduction::kProduct, in);
    for (size_t i = 0; i < length; ++i) {
      ASSERT_EQ(sum[i], in[0][i] + in[1][i] + in[2][i]);
      ASSERT_EQ(average[i], (in[0][i] + in[1][i] + in[2][i]) / 3);
      ASSERT_EQ(product[i], in[0][i] * in[1][i] * in[2][i]);
    }
  }
}

// In place there are loops of their own for some numbers of arrays: all must give the same bits.
TEST(ReduceArrays, GivesTheSameBitsInPlace) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> value(-2, 2);
  for (size_t arrays = 1; arrays <= 9; ++arrays) {
    std::vector<std::vector<float>> in(arrays, std::vector<float>(5003));
    for (auto& array : in) {
      for (float& x : array) x = value(random);
    }
    for (const Reduction reduction : {Reduction::kSum, Reduction::kAvg, Reduction::kMax}) {
      const std::vector<float> expected = Reduce(DataType::kFloat32, reduction, in);
      std::vector<std::vector<float>> out = in;
      std::vector<std::byte*> places;
      for (auto& array : out) places.push_back(reinterpret_cast<std::byte*>(array.data()));
      const std::vector<const std::byte*> sources(places.begin(), places.end());
      ReduceArrays(DataType::kFloat32, reduction, sources, places, 5003);
      for (const auto& array : out) {
        ASSERT_EQ(array, expected) << arrays << " arrays, " << NameOf(reduction);
      }
    }
  }
}

TEST(ReduceArrays, HandlesIntegers) {
  const std::vector<std::vector<int32_t>> in = {{std::numeric_limits<int32_t>::max(), -5}, {1, 3}};
  const auto sum = Reduce(DataType::kInt32, Reduction::kSum, in);
  EXPECT_EQ(sum[0], std::numeric_limits<int32_t>::min());  // wraps around
  EXPECT_EQ(Reduce(DataType::kInt32, Reduction::kMax, in)[1], 3);
  EXPECT_EQ(Reduce(DataType::kInt32, Reduction::kMin, in)[1], -5);
  const std::vector<std::vector<int64_t>> wide = {{int64_t{1} << 40}, {3}};
  EXPECT_EQ(Reduce(DataType::kInt64, Reduction::kProduct, wide)[0], int64_t{3} << 40);
  const std::vector<std::vector<uint8_t>> bytes = {{200}, {100}};
  EXPECT_EQ(Reduce(DataType::kUInt8, Reduction::kSum, bytes)[0], 44);
}

TEST(ReduceArrays, LetsNanWinInMaxAndMin) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> in = {{nan, 1}, {1, nan}};
  for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
    const auto out = Reduce(DataType::kFloat32, reduction, in);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
  }
}

// The compiler's own half-precision type is the peer: every bit pattern. Clang has it from 15 on.
#if !defined(__clang__) || __clang_major__ >= 15
TEST(ReduceArrays, RoundsHalvesAsTheCompilerDoes) {
  std::vector<std::vector<uint16_t>> in(2, std::vector<uint16_t>(1 << 16));
  for (size_t i = 0; i < in[0].size(); ++i) {
    in[0][i] = static_cast<uint16_t>(i);
    in[1][i] = static_cast<uint16_t>(i * 40503U);
  }
  const auto out = Reduce(DataType::kFloat16, Reduction::kSum, in);
  for (size_t i = 0; i < out.size(); ++i) {
    _Float16 a;
    _Float16 b;
    std::memcpy(&a, &in[0][i], 2);
    std::memcpy(&b, &in[1][i], 2);
    const _Float16 expected = static_cast<_Float16>(static_cast<float>(a) + static_cast<float>(b));
    _Float16 found;
    std::memcpy(&found, &out[i], 2);
    if (static_cast<float>(expected) != static_cast<float>(expected)) {
      ASSERT_NE(static_cast<float>(found), static_cast<float>(found)) << i;
    } else {
      ASSERT_EQ(std::memcmp(&expected, &found, 2), 0) << i;
    }
  }
}
#endif

TEST(ReduceArrays, RoundsBFloat16ToNearestEven) {
  const auto bits = [](float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    return static_cast<uint16_t>(word >> 16);
  };
  // 1 + 2^-8 lies half-way between 1 and 1 + 2^-7: to even, so down. 1 + 3*2^-8: up.
  const std::vector<std::vector<uint16_t>> in = {{bits(1.0F), bits(1.0F), bits(1.0F)},
                                                 {bits(0x1p-8F), bits(0x1.8p-7F), bits(0x1p-7F)}};
  const auto out = Reduce(DataType::kBFloat16, Reduction::kSum, in);
  EXPECT_EQ(out[0], bits(1.0F));
  EXPECT_EQ(out[1], bits(1.015625F));
  EXPECT_EQ(out[2], bits(1.0078125F));
}

}  // namespace
}  // namespace ddprun::trainer
