// A folder of tuning tables that is none: said where a variable names it, refused where an option does.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "cases/scale_template.hpp"
#include "fixtures/log_lines.hpp"
#include "fixtures/temporary_folder.hpp"
#include "fixtures/variable.hpp"
#include "kernwright/runtime.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace {

struct Prepared {
  std::shared_ptr<LogLines> log;  // outlives the kernels, whose runtime logs into it
  Result<Kernel> first, second;
};

/// Two prepares that read the tables.
Prepared prepare_twice(RuntimeOptions options) {
  auto log = std::make_shared<LogLines>();
  options.memory_only = true;
  options.log_level = LogLevel::info;
  options.log = log->callback();
  const auto runtime = Runtime::create(std::move(options));
  REQUIRE(runtime);
  REQUIRE(runtime->register_template(cases::scale_template()));
  const auto prepare = [&](std::int64_t factor) {
    return runtime->prepare(
        {"test/scale", Specialisation{}.set("factor", factor), DeviceId::host(), std::nullopt, sizeof(cases::ScaleParams), std::nullopt});
  };
  Result<Kernel> first = prepare(1);
  Result<Kernel> second = prepare(2);
  return {std::move(log), std::move(first), std::move(second)};
}

}  // namespace

TEST_CASE("tuning folder: a variable that names no folder is one warning, and the built-in tables are used") {
  const TemporaryFolder folder;
  write_file(folder.path() / "file.toml", "format = 1\n");
  for (const auto& [named, why] :
       {std::pair{folder.path() / "typo", "there is no such folder"}, {folder.path() / "file.toml", "it is no folder"}}) {
    CAPTURE(named);
    const Variable variable("KERNWRIGHT_TUNING_DIR", named.c_str());
    const Prepared prepared = prepare_twice({});
    CHECK(prepared.first);
    CHECK(prepared.second);
    const auto warnings = prepared.log->lines(LogLevel::warn);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings.front() == "KERNWRIGHT_TUNING_DIR=" + named.string() + ": " + why + ": the built-in tuning tables alone are used");
  }
}

TEST_CASE("tuning folder: an option that names no folder is the error of the prepare") {
  const TemporaryFolder folder;
  write_file(folder.path() / "file.toml", "format = 1\n");
  RuntimeOptions options;
  options.tuning_folder = folder.path() / "typo";
  // The option wins over the variable, right or wrong.
  const Variable variable("KERNWRIGHT_TUNING_DIR", folder.path().c_str());
  Prepared prepared = prepare_twice(options);
  REQUIRE_FALSE(prepared.first);
  CHECK(prepared.first.error().code == ErrorCode::not_found);
  CHECK(prepared.first.error().message == "the option tuning_folder is " + options.tuning_folder->string() +
                                              ": there is no such folder; name a folder that tuning tables (*.toml) stand in, or leave "
                                              "the option out");
  CHECK_FALSE(prepared.second);
  CHECK(prepared.log->count(LogLevel::warn) == 0);
  options.tuning_folder = folder.path() / "file.toml";
  prepared = prepare_twice(options);
  REQUIRE_FALSE(prepared.first);
  CHECK(prepared.first.error().code == ErrorCode::invalid_argument);
  CHECK(prepared.first.error().message.find("it is no folder") != std::string::npos);
}

TEST_CASE("tuning folder: one without a table is a line of the log") {
  const TemporaryFolder folder;
  write_file(folder.path() / "table.tml", "format = 1\n");
  const Variable variable("KERNWRIGHT_TUNING_DIR", folder.path().c_str());
  const Prepared prepared = prepare_twice({});
  CHECK(prepared.first);
  CHECK(prepared.log->count(LogLevel::warn) == 0);
  CHECK(prepared.log->containing("KERNWRIGHT_TUNING_DIR=" + folder.path().string() + ": no file *.toml is in it") == 1);
}

TEST_CASE("tuning folder: a table that is wrong is the error of the prepare, with the file's line and what named the folder") {
  const TemporaryFolder folder;
  write_file(folder.path() / "mine.toml", "format = 1\nrows = 3\n");
  const Variable variable("KERNWRIGHT_TUNING_DIR", folder.path().c_str());
  const Prepared prepared = prepare_twice({});
  REQUIRE_FALSE(prepared.first);
  CHECK(prepared.first.error().code == ErrorCode::malformed);
  CHECK(prepared.first.error().text().find("mine.toml:2") != std::string::npos);
  CHECK(prepared.first.error().text().find("KERNWRIGHT_TUNING_DIR=") != std::string::npos);
}
