#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/bf16.hpp"
#include "support/format.hpp"
#include "support/parallel.hpp"
#include "support/progress.hpp"
#include "support/random.hpp"

#include <atomic>
#include <stdexcept>

using namespace kernwright;
using namespace kernwright::support;

TEST_CASE("bf16: rounding is to nearest, ties to even") {
  CHECK(float_to_bf16(1.0F) == 0x3f80);
  CHECK(float_to_bf16(-2.5F) == 0xc020);
  CHECK(float_to_bf16(1 + 1.0F / 256) == 0x3f80);  // A tie: 1 is even.
  CHECK(float_to_bf16(1 + 3.0F / 256) == 0x3f82);  // A tie: up to even.
  CHECK(float_to_bf16(1 + 1.0F / 256 + 1e-6F) == 0x3f81);
  CHECK(float_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(float_to_bf16(-std::numeric_limits<float>::infinity()) == 0xff80);
  CHECK(float_to_bf16(-0.0F) == 0x8000);
  CHECK(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose payload stands in the lower half only must not become infinity.
  CHECK(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f80'0001U)))));
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) REQUIRE(float_to_bf16(bf16_to_float(static_cast<Bf16>(bits))) == bits);
}

TEST_CASE("random: values are N(0, 1), the same for every split, and differ by stream and seed") {
  constexpr std::int64_t kCount = 1'000'003;
  const std::vector<Bf16> values = random_normal_bf16(kCount, 7, 1);
  REQUIRE(values.size() == kCount);
  double sum = 0, square = 0, fourth = 0, neighbours = 0;
  std::int64_t within_one = 0;
  float previous = 0;
  for (const Bf16 bits : values) {
    const float value = bf16_to_float(bits);
    sum += static_cast<double>(value);
    square += std::pow(static_cast<double>(value), 2);
    fourth += std::pow(static_cast<double>(value), 4);
    neighbours += static_cast<double>(value * previous);
    within_one += std::abs(value) < 1 ? 1 : 0;
    previous = value;
  }
  CHECK(std::abs(sum / kCount) < 0.005);
  CHECK(square / kCount == doctest::Approx(1).epsilon(0.01));
  CHECK(fourth / kCount == doctest::Approx(3).epsilon(0.03));
  CHECK(std::abs(neighbours / kCount) < 0.005);
  CHECK(static_cast<double>(within_one) / kCount == doctest::Approx(0.6827).epsilon(0.01));
  CHECK(values == random_normal_bf16(kCount, 7, 1));
  CHECK(values != random_normal_bf16(kCount, 7, 2));
  CHECK(values != random_normal_bf16(kCount, 8, 1));
  const std::vector<Bf16> wide = random_normal_bf16(4, 7, 1, 4);
  CHECK(bf16_to_float(wide[0]) == doctest::Approx(4 * bf16_to_float(values[0])).epsilon(0.01));
}

TEST_CASE("parallel: every item is visited once, and an exception comes out") {
  std::vector<std::atomic<int>> seen(1001);
  parallel_ranges(1001, 7, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
  });
  for (const std::atomic<int>& count : seen) REQUIRE(count == 1);
  parallel_ranges(0, 7, [](std::int64_t, std::int64_t) { FAIL("nothing to visit"); });
  CHECK_THROWS_AS(parallel_ranges(100, 1,
                                  [](std::int64_t begin, std::int64_t) {
                                    if (begin == 42) throw std::runtime_error("x");
                                  }),
                  std::runtime_error);
}

TEST_CASE("format: bytes and times have three digits") {
  CHECK(format_bytes({0}) == "0 B");
  CHECK(format_bytes({1023}) == "1023 B");
  CHECK(format_bytes({1536}) == "1.5 KiB");
  CHECK(format_bytes(mebibytes(256)) == "256 MiB");
  CHECK(format_bytes({232'448}) == "227 KiB");
  CHECK(format_bytes({(1ULL << 30) - 1}) == "1 GiB");
  CHECK(format_bytes({~0ULL}) == "16 EiB");
  CHECK(format_milliseconds(0.4123) == "0.412 ms");
  CHECK(format_milliseconds(3.8049) == "3.80 ms");
  CHECK(format_milliseconds(31.25) == "31.2 ms");
  CHECK(format_milliseconds(999.6) == "1.00 s");
  CHECK(format_milliseconds(61'000) == "61.0 s");
}

TEST_CASE("format: split keeps empty parts") {
  CHECK(split("", ',').empty());
  CHECK(split("a", ',') == std::vector<std::string>{"a"});
  CHECK(split("a,,b,", ',') == std::vector<std::string>{"a", "", "b", ""});
}

TEST_CASE("progress: the bar shows its share and fits the terminal") {
  CHECK(progress_bar("warm", 0, 8, "", 80) == "warm [........................] 0/8 ");
  CHECK(progress_bar("warm", 4, 8, "x", 80) == "warm [############............] 4/8 x");
  CHECK(progress_bar("warm", 9, 8, "x", 80) == "warm [########################] 9/8 x");
  CHECK(progress_bar("warm", 4, 8, "a long detail", 20).size() == 20);
}
