#include "file_system_facts.hpp"

#include <fmt/format.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace kernwright::tool {
namespace {

struct Name {
  std::uint64_t magic;
  std::string_view name;
};
// statfs(2) and linux/magic.h; the parallel file systems' numbers are from their own sources.
constexpr std::array kNames{
    Name{0xEF53, "ext4"},         Name{0x58465342, "xfs"},     Name{0x9123683E, "btrfs"}, Name{0x01021994, "tmpfs"},
    Name{0x6969, "nfs"},          Name{0x794C7630, "overlay"}, Name{0x2FC12FC1, "zfs"},   Name{0xF2F52010, "f2fs"},
    Name{0x65735546, "fuse"},     Name{0xFF534D42, "cifs"},    Name{0xFE534D42, "smb2"},  Name{0x01021997, "9p"},
    Name{0x73717368, "squashfs"}, Name{0xE0F5E1E2, "erofs"},   Name{0x9660, "iso9660"},   Name{0x4D44, "vfat"},
    Name{0x0BD00BD0, "lustre"},   Name{0x47504653, "gpfs"},    Name{0x00C36400, "ceph"},  Name{0x19830326, "beegfs"},
    Name{0x858458F6, "ramfs"},    Name{0x9FA0, "proc"},        Name{0x62656572, "sysfs"}, Name{0xCA451A4E, "bcachefs"}};

}  // namespace

std::string file_system_name(std::uint64_t magic) {
  const auto* const found = std::ranges::find(kNames, magic, &Name::magic);
  return found != kNames.end() ? std::string(found->name) : fmt::format("type {:#x}", magic);
}

std::optional<FileSystemFacts> file_system_facts(const std::filesystem::path& folder) {
  struct statfs type {};
  struct statvfs space {};
  if (::statfs(folder.c_str(), &type) != 0 || ::statvfs(folder.c_str(), &space) != 0) return std::nullopt;
  FileSystemFacts facts;
  // f_type is signed on some systems: its upper half must not become ones.
  facts.type = file_system_name(static_cast<std::uint32_t>(type.f_type));
  facts.free = {space.f_bavail * space.f_frsize};
  if (space.f_files > 0) facts.free_inodes = space.f_favail;
  return facts;
}

}  // namespace kernwright::tool
