#include "fake_driver_fixture.hpp"
#include "kernwright/sparse_mla_prefill.hpp"

using namespace kernwright;
using namespace kernwright::testing;

TEST_CASE("sparse MLA prefill: a device below compute capability 8.0 is refused when the op is made") {
  auto& driver = fake_driver();
  driver.set_devices({{"T4", 7, 5, 65536, 1024, 40, 4 << 20, 1 << 30}});
  RuntimeOptions options;
  options.memory_only = true;
  options.cuda_driver = KERNWRIGHT_FAKE_CUDA_WHOLE;
  auto runtime = Runtime::create(options);
  REQUIRE(runtime);
  SparseMlaPrefillOptions shape;
  shape.device = DeviceId::cuda(0);
  shape.heads = 8;
  auto op = SparseMlaPrefill::create(*runtime, shape);
  REQUIRE_FALSE(op);
  CHECK(op.error().code == ErrorCode::unsupported);
  CHECK_MESSAGE(says(op.error(), "7.5"), op.error().text());
  CHECK(op.error().text().find("T4") != std::string::npos);
}
