#include "store/store_folder.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixtures/temporary_folder.hpp"

using namespace kernwright;
using namespace kernwright::tests;

namespace fs = std::filesystem;

TEST_CASE("store folder: the setting, then KERNWRIGHT_CACHE_DIR, XDG_CACHE_HOME, HOME, TMPDIR") {
  const TemporaryFolder folder;
  const fs::path home = folder.path() / "home";
  const fs::path temporary = folder.path() / "tmp";
  fs::create_directories(home);
  fs::create_directories(temporary);
  StoreFolderSettings settings{
      .setting = "/a/setting", .cache_dir = "/b/cache", .xdg_cache_home = "/c/xdg", .home = home, .tmpdir = temporary, .user = ::geteuid()};
  CHECK(choose_store_folder(settings) == "/a/setting");
  settings.setting = "relative";
  CHECK(choose_store_folder(settings) == fs::current_path() / "relative");
  settings.setting.reset();
  CHECK(choose_store_folder(settings) == "/b/cache");
  settings.cache_dir.clear();
  CHECK(choose_store_folder(settings) == "/c/xdg/kernwright");
  settings.xdg_cache_home = "relative/is/ignored";
  CHECK(choose_store_folder(settings) == home / ".cache" / "kernwright");
  const fs::path in_temporary = temporary / ("kernwright-" + std::to_string(::geteuid()));
  settings.home = folder.path() / "no-such-home";
  CHECK(choose_store_folder(settings) == in_temporary);
  settings.home.clear();
  CHECK(choose_store_folder(settings) == in_temporary);
  CHECK_FALSE(fs::exists(in_temporary));
  settings.tmpdir = folder.path() / "no-such-folder";
  CHECK_FALSE(choose_store_folder(settings));
}

TEST_CASE("store folder: in TMPDIR only a private folder of this user's own is taken") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / ("kernwright-" + std::to_string(::geteuid()));
  StoreFolderSettings settings{
      .setting = {}, .cache_dir = {}, .xdg_cache_home = {}, .home = {}, .tmpdir = folder.path(), .user = ::geteuid()};
  REQUIRE(::mkdir(path.c_str(), 0700) == 0);
  CHECK(choose_store_folder(settings) == path);
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  CHECK_FALSE(choose_store_folder(settings));
  fs::remove(path);
  fs::create_directories(folder.path() / "elsewhere");
  fs::create_directory_symlink(folder.path() / "elsewhere", path);
  CHECK_FALSE(choose_store_folder(settings));
  fs::remove(path);
  write_file(path, "a file");
  CHECK_FALSE(choose_store_folder(settings));
  fs::remove(path);
  // A folder that someone else planted under the name of user n + 1.
  settings.user = ::geteuid() + 1;
  REQUIRE(::mkdir((folder.path() / ("kernwright-" + std::to_string(settings.user))).c_str(), 0700) == 0);
  CHECK_FALSE(choose_store_folder(settings));
}
