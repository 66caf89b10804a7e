// Paged MLA decode of a query that is not finite.
#include <cmath>

#include "cases/paged_mla_case.hpp"

namespace kernwright::cases {
namespace {

constexpr std::size_t kValueColumns = 512;

}  // namespace

void query_that_is_not_finite_stays_alone(const Runtime& runtime, DeviceId device, PagedMlaCase c) {
  CAPTURE(c.text());
  const std::size_t spoilt = 1;  // of the rows of [B · s_q, H]
  const auto inputs = make_inputs(c);
  const auto clean = decode_once(runtime, device, c, *inputs);
  constexpr support::Bf16 kNan{0x7fc0};
  inputs->q[spoilt * static_cast<std::size_t>(c.d_qk) + 7] = kNan;
  const auto got = decode_once(runtime, device, c, *inputs);
  for (std::size_t row = 0; row < got.lse.size(); ++row) {
    CAPTURE(row);
    if (row != spoilt) CHECK(got.lse[row] == clean.lse[row]);
    if (row == spoilt) CHECK(std::isnan(got.lse[row]));
    std::size_t off = 0;
    for (std::size_t column = 0; column < kValueColumns; ++column) {
      const support::Bf16 value = got.out[row * kValueColumns + column];
      const bool as_expected = row == spoilt ? std::isnan(support::bf16_to_float(value)) : value == clean.out[row * kValueColumns + column];
      off += as_expected ? 0 : 1;
    }
    CHECK(off == 0);
  }
}

}  // namespace kernwright::cases
