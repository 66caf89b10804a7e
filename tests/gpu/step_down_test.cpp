#include <doctest/doctest.h>

#include "cases/step_down_cases.hpp"
#include "gpu/gpu_fixture.hpp"

using namespace kernwright;
using gpu::kDevice;

TEST_CASE("gpu step down: the fit is written and differs from the tile asked for") {
  cases::fit_is_written_and_differs_from_the_tile_asked_for(kDevice);
}
TEST_CASE("gpu step down: the next process starts at the fit") {
  cases::next_process_starts_at_the_fit(kDevice);
}
TEST_CASE("gpu step down: a changed source ignores the fit") {
  cases::changed_source_ignores_the_fit(kDevice);
}
TEST_CASE("gpu step down: a grid of 65,536 rows is an error and no step down") {
  cases::oversized_grid_is_an_error_and_no_step_down(kDevice);
}
TEST_CASE("gpu step down: the shared memory limit decides the tile") {
  cases::shared_memory_limit_decides_the_tile(kDevice);
}
