// A sticky fault ends the context it happens in, so it happens in a child process.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "cases/scale_template.hpp"
#include "gpu/gpu_fixture.hpp"

using namespace kernwright;
using namespace kernwright::cases;
using gpu::kDevice;

TEST_CASE("gpu fault child" * doctest::skip()) {
  const Runtime runtime = gpu::runtime();
  REQUIRE(runtime.register_template(scale_template()));
  auto kernel = runtime.prepare(
      {"test/scale", Specialisation{}.set("factor", 2), kDevice, *Tile::parse("plain:m1n40s1w2"), sizeof(ScaleParams), std::nullopt});
  REQUIRE(kernel);
  auto stream = runtime.create_stream(kDevice);
  REQUIRE(stream);
  const ScaleParams nowhere{reinterpret_cast<const float*>(16), reinterpret_cast<float*>(16), 64};
  CHECK(kernel->launch(Grid{1, 1, 1}, nowhere, stream->handle()));
  auto waited = stream->synchronize();
  REQUIRE_FALSE(waited);
  CHECK_MESSAGE(waited.error().code == ErrorCode::device_fault, waited.error().text());
  auto launched = kernel->launch(Grid{1, 1, 1}, ScaleParams{}, stream->handle());
  REQUIRE_FALSE(launched);
  CHECK_MESSAGE(launched.error().code == ErrorCode::device_fault, launched.error().text());
  CHECK(launched.error().text().find("test/scale") != std::string::npos);
  // Nothing was tried again with a smaller tile.
  CHECK(runtime.counters().step_downs == 0);
}

TEST_CASE("gpu fault: an illegal address is a device fault, named, and not retried") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", "kernwright_gpu_tests", "--no-skip", "--test-case=gpu fault child", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
