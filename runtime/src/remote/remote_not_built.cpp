// In place of the remote tier where the build is without it.
#include "remote/remote_options.hpp"
#include "remote/remote_tier.hpp"

namespace kernwright {

Result<std::shared_ptr<RemoteTier>> open_remote_tier(const RemoteOptions& options, Logger /*logger*/, std::shared_ptr<Clock> /*clock*/) {
  // Wrong settings are the same error in every build.
  if (auto address = check_remote_options(options); !address) return fail(std::move(address.error()));
  return fail(
      ErrorCode::unsupported,
      "a remote cache is set, but this build has none: configure with -DKERNWRIGHT_REMOTE=ON (needs hiredis and libsodium), or unset "
      "the environment's KERNWRIGHT_REMOTE");
}

}  // namespace kernwright
