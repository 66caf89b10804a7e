#include <exception>
#include <new>

#include "command_line.hpp"
#include "console.hpp"

int main(int argc, char** argv) {
  using kernwright::ErrorCode;
  using namespace kernwright::tool;
  prepare_standard_streams();
  // The library throws nothing; what arrives here comes from the standard library underneath the program.
  try {
    return run_command_line(argc, argv);
  } catch (const std::bad_alloc&) {
    return static_cast<int>(report_error({ErrorCode::out_of_memory, "this machine has not enough memory for it", {}}));
  } catch (const std::exception& error) {
    return static_cast<int>(report_error({ErrorCode::internal, error.what(), {}}));
  }
}
